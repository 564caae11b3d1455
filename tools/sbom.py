#!/usr/bin/env python3
"""The bill of materials of a release, as SPDX 2.3 JSON: the built packages, their build inputs, and the libraries that
they link.

usage: sbom.py SOURCE_TREE OUT_FOLDER >FILE

Equal packages give equal text: its identifiers and its time come from them and from SOURCE_DATE_EPOCH.
"""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time


# The build system: a chroot's, if its dpkg is named.
SYSTEM = pathlib.Path(os.environ.get("DPKG_ADMINDIR", "/var/lib/dpkg")).parents[2]


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def field(deb, name):
    return subprocess.run(["dpkg-deb", "--field", str(deb), name], check=True, capture_output=True, text=True).stdout.strip()


def installed(package):
    """(version, source, home page) of an installed package, else None. A cross build may have it twice, in one
    version."""
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}\t${source:Package}\t${source:Version}\t${Homepage}\n", package],
                          capture_output=True, text=True)
    return done.stdout.splitlines()[0].split("\t") if done.returncode == 0 else None


def licence_of(package):
    """The licences in the package's own copyright file, if it is machine-readable; else none is claimed."""
    path = SYSTEM / "usr/share/doc" / package / "copyright"
    try:
        names = sorted(set(re.findall(r"^License: *(\S.*)$", path.read_text(errors="replace"), re.M)))
    except OSError:
        names = []
    return ("Debian's copyright file names: " + "; ".join(names)) if names else ""


def spdx_id(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def package(name, version, **more):
    return {"SPDXID": spdx_id(name), "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION", **more}


def needed_names(control):
    """Package names of a Depends line, the first of alternatives."""
    return [re.split(r"[\s(|]", item.strip())[0].split(":")[0] for item in control.split(",") if item.strip()]


def main():
    tree, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    debs = sorted(out.glob("*.deb"))
    tarball = next(out.glob("verbena-*.tar.xz"))
    version = tarball.name.removeprefix("verbena-").removesuffix(".tar.xz")
    packages = [package("verbena-source", version, packageFileName=tarball.name, licenseDeclared="Apache-2.0",
                        checksums=[{"algorithm": "SHA256", "checksumValue": sha256(tarball)}])]
    relations, linked = [], set()
    for deb in debs:
        name = field(deb, "Package")
        packages.append(package(name, field(deb, "Version"), packageFileName=deb.name, licenseDeclared="Apache-2.0",
                                checksums=[{"algorithm": "SHA256", "checksumValue": sha256(deb)}]))
        relations.append((spdx_id(name), "GENERATED_FROM", spdx_id("verbena-source")))
        for needed in needed_names(field(deb, "Depends")):
            relations.append((spdx_id(name), "DEPENDS_ON", spdx_id(needed)))
            linked.add(needed)
    ours = {p["name"] for p in packages}
    build = needed_names(re.search(r"^Build-Depends: (.*(?:\n .*)*)", (tree / "debian/control").read_text(), re.M).group(1))
    for name in sorted((linked | set(build)) - ours):
        found = installed(name)
        if found is None and name.endswith("-dev"):
            continue  # the alternative that is not installed
        version_of = found[0] if found else "NOASSERTION"
        more = {"comment": licence_of(name)} if found and licence_of(name) else {}
        if found:
            more["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                     "referenceLocator": f"pkg:deb/debian/{name}@{version_of}"}]
        packages.append(package(name, version_of, **more))
        if name in build:
            relations.append((spdx_id(name), "BUILD_DEPENDENCY_OF", spdx_id("verbena-source")))
    if any("libfabric.so" in line for deb in debs for line in
           subprocess.run(["dpkg-deb", "--contents", str(deb)], check=True, capture_output=True, text=True).stdout.splitlines()
           if "dbgsym" not in deb.name):
        packages.append(package("libfabric", "2.1.0", licenseDeclared="BSD-2-Clause OR GPL-2.0-only", downloadLocation="https://deb.debian.org/debian/pool/main/libf/libfabric/",
                                comment="Debian 13's source with tools/libfabric-tcp-checks.patch, in libverbena0's private folder"))
        relations.append((spdx_id("libfabric"), "CONTAINED_BY", spdx_id("libverbena0")))
    if any("IPSEC_MB_HAS_VAES:INTERNAL=1" in cache.read_text() for cache in tree.glob("obj*/CMakeCache.txt")):
        relations += [(spdx_id(name), "STATIC_LINK", spdx_id("libipsec-mb-dev")) for name in ("verbena", "libverbena0")]
    names = {p["SPDXID"] for p in packages}
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
    digest = hashlib.sha256("".join(sorted(sha256(p) for p in [tarball, *debs])).encode()).hexdigest()
    json.dump({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"verbena-{version}",
               "documentNamespace": f"urn:sha256:{digest}", "creationInfo": {"created": created, "creators": ["Tool: verbena-tools-sbom"]},
               "packages": packages,
               "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": spdx_id(p)}
                                 for p in ("verbena-source", *sorted(field(d, "Package") for d in debs))] +
                                [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                                 for a, kind, b in relations if a in names and b in names]},
              sys.stdout, indent=1)
    print()


main()
