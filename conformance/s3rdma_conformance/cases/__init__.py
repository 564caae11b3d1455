"""The cases, by subject. Their numbers stay: a new case gets a number that was never used."""
import importlib

SUBJECTS = ("moves", "ranges", "checksums", "conditions", "versions", "multipart", "puts", "refused", "tokens", "failures", "concurrency", "hipobj",
            "cuobj")


def load():
    for subject in SUBJECTS:
        importlib.import_module(f"{__name__}.{subject}")
