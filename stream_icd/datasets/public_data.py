"""Public data sets for producers: location, description and citation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_icd.errors import BadSettings


@dataclass(frozen=True, slots=True)
class PublicData:
    """A public data set, in one file or several.

    Attributes:
        name: name of the data set in this library.
        urls: URLs of its files.
        about: one-line description.
        page: URL of the owner's description.
        terms: the owner's terms of use.
        citation: publication to cite.
        produce: command to send it, with `{path}` for the file, or the folder of several files.
        sha256: SHA-256 of each file by name, if known.
    """

    name: str
    urls: tuple[str, ...]
    about: str
    page: str
    terms: str
    citation: str
    produce: str
    sha256: Mapping[str, str] = field(default_factory=dict)


SNAP_TERMS = "SNAP states no licence for the data; it asks for the citation."
AS_CITATION = (
    "J. Leskovec, J. Kleinberg, C. Faloutsos: Graphs over Time: Densification Laws, Shrinking "
    "Diameters and Possible Explanations. KDD 2005."
)
T_DRIVE_CITATION = (
    "J. Yuan et al.: T-Drive: Driving Directions Based on Taxi Trajectories. GIS 2010; and "
    "Driving with Knowledge from the Physical World. KDD 2011."
)

T_DRIVE = "https://www.microsoft.com/en-us/research/wp-content/uploads/2016/02"

CATALOGUE: tuple[PublicData, ...] = (
    PublicData(
        name="as-733",
        urls=("https://snap.stanford.edu/data/as-733.tar.gz",),
        about="733 daily topologies of the Internet, 1997 to 2000",
        page="https://snap.stanford.edu/data/as-733.html",
        terms=SNAP_TERMS,
        citation=AS_CITATION,
        produce="stream-icd produce as {path} --graph as733 "
        "--source https://snap.stanford.edu/data/as-733.html",
    ),
    PublicData(
        name="as-caida",
        urls=("https://snap.stanford.edu/data/as-caida.tar.gz",),
        about="122 topologies of the Internet by CAIDA, 2004 to 2007",
        page="https://snap.stanford.edu/data/as-Caida.html",
        terms=SNAP_TERMS,
        citation=AS_CITATION,
        produce="stream-icd produce as {path} --graph as-caida "
        "--source https://snap.stanford.edu/data/as-Caida.html",
    ),
    PublicData(
        name="t-drive",
        urls=tuple(f"{T_DRIVE}/{part:02d}.zip" for part in range(6, 15)),
        about="15 million fixes of 10,357 taxis in Beijing, one week of 2008",
        page="https://www.microsoft.com/en-us/research/publication/t-drive-trajectory-data-sample/",
        terms="Microsoft Research offers it as a sample, and asks for its citations.",
        citation=T_DRIVE_CITATION,
        produce="stream-icd produce taxi {path} --t-drive --tick 10m",
    ),
    PublicData(
        name="email-eu",
        urls=("https://snap.stanford.edu/data/email-Eu-core-temporal.txt.gz",),
        about="332,334 mails among 986 people of a research institution, 804 days",
        page="https://snap.stanford.edu/data/email-Eu-core-temporal.html",
        terms=SNAP_TERMS,
        citation="A. Paranjape, A. R. Benson, J. Leskovec: Motifs in Temporal Networks. WSDM 2017.",
        produce="stream-icd produce events {path} --columns src,dst,t --window 3d --graph email-eu",
    ),
    PublicData(
        name="college-msg",
        urls=("https://snap.stanford.edu/data/CollegeMsg.txt.gz",),
        about="59,835 private messages among 1,899 students, 193 days",
        page="https://snap.stanford.edu/data/CollegeMsg.html",
        terms=SNAP_TERMS,
        citation="P. Panzarasa, T. Opsahl, K. M. Carley: Patterns and Dynamics of Users' Behavior "
        "and Interaction. JASIST 60 (2009).",
        produce="stream-icd produce events {path} --columns src,dst,t --window 1d "
        "--graph college-msg",
    ),
)


def public_data(name: str) -> PublicData:
    """Return the data set with that name.

    Raises:
        BadSettings: the name is unknown; the message lists the known names.
    """
    for data in CATALOGUE:
        if data.name == name:
            return data
    raise BadSettings(f"no data set {name!r}: choose from {', '.join(d.name for d in CATALOGUE)}")
