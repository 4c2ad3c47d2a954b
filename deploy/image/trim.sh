#!/bin/sh
# Take from a folder of installed packages what no program of the image uses.
#
#   trim.sh /opt/stream-icd/lib/python3.11/site-packages
set -eu
cd "$1"

# Tests, headers and sources of libraries, and what installs packages.
find . -depth -type d \( -name tests -o -name include \) -exec rm -rf {} +
find . -type f \( -name '*.pyi' -o -name '*.py[xd]' -o -name '*.pxi' -o -name '*.[ch]' -o -name '*.[ch]pp' \
  -o -name '*.cc' -o -name '*.a' \) -delete
rm -rf pip pip-* setuptools setuptools-* pkg_resources _distutils_hack distutils-precedence.pth

# Arrow's server of tables. Wheels hold no links, so some libraries come under three names: x.so,
# x.so.2600 and x.so.2600.1.0, of which others ask for the second.
rm -f pyarrow/*flight* pyarrow/lib*.so.*.*
for library in pyarrow/lib*.so; do
  set -- "$library".*
  if [ -e "$1" ]; then rm "$library"; fi
done

# Descriptions of hundreds of services; object stores need these.
find botocore/data -mindepth 1 -maxdepth 1 -type d \
  ! -name s3 ! -name sts ! -name sso ! -name sso-oidc ! -name signin -exec rm -rf {} +

# Symbols for debuggers. strip damages what *.libs hold, whose paths were patched.
if command -v strip >/dev/null; then
  find . -name '*.so*' -type f ! -path './*.libs/*' -exec strip --strip-unneeded {} +
fi
