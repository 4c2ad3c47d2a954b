# The command `stream-icd`, for producers, detectors and subscribers: docker run stream-icd --help
# Detection runs without torch, so the image has none; train where stream-icd[train] is installed.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends binutils && \
    rm -rf /var/lib/apt/lists/* && python -m venv /opt/stream-icd
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY stream_icd stream_icd
COPY producers producers
COPY consumers consumers
COPY models models
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/stream-icd/bin/pip install --no-compile --constraint constraints.txt '.[otel,s3,view]'
COPY deploy/image/trim.sh deploy/image/compile.py ./
RUN sh trim.sh /opt/stream-icd/lib/python*/site-packages && cd / && \
    /opt/stream-icd/bin/python /src/compile.py

FROM python:${PYTHON}-slim
# Others may read its folder: OpenShift runs the image as a user of its own choice.
RUN useradd --create-home --uid 10001 icd && chmod 755 /home/icd
COPY --from=build /opt/stream-icd /opt/stream-icd
ENV PATH=/opt/stream-icd/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/home/icd/.cache/numba \
    NUMBA_CPU_NAME=generic
USER icd
WORKDIR /home/icd
# A volume here belongs to this user, too.
RUN mkdir history registry
# Compiles what detection needs, once for all containers: it takes half a minute. What is compiled for a
# generic processor of this architecture is as fast, and serves on each of them.
RUN ["python", "-c", "from stream_icd.streaming.detection.record import DetectSettings, Detection; from stream_icd.registry.find import open_model; Detection(open_model('default'), DetectSettings(memory='auto')).warm_up()"]
# Says what a worker says on /healthz, if it has --metrics-port 9464; other programs only have to run.
HEALTHCHECK --interval=20s --timeout=10s --start-period=60s --retries=3 CMD ["python", "-m", "stream_icd.streaming.metrics.probe"]
# Last, so that a new version uses the layers before it.
ARG VERSION=dev
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="stream-icd" \
    org.opencontainers.image.description="Communities of a stream of graphs over Kafka" \
    org.opencontainers.image.source="$SOURCE" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION"
ENTRYPOINT ["stream-icd"]
CMD ["--help"]
