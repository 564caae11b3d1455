"""duplicity: a full and an incremental backup, verified, restored as of each, and the old one removed."""
import os
import time

from zoo import BUCKET, Zoo, grow_tree, install, run, same_tree

install("duplicity", "python3-boto3")
with Zoo() as zoo:
    tree = zoo.home / "tree"
    grow_tree(tree)
    target = f"boto3+s3://{BUCKET}/backup"
    options = ("--no-encryption", "--s3-endpoint-url", zoo.endpoint, "--archive-dir", zoo.home / "cache", "--volsize", "7")
    duplicity = lambda *words: run("duplicity", *words, *options, env=zoo.env)   # noqa: E731
    duplicity("full", tree, target)
    before = zoo.home / "before"
    run("cp", "-a", tree, before)
    time.sleep(1.1)   # a backup's time has a resolution of seconds
    (tree / "new").write_bytes(os.urandom(1000))
    (tree / "big.bin").write_bytes(os.urandom(9 << 20))
    duplicity("incremental", tree, target)
    duplicity("verify", "--compare-data", target, tree)
    duplicity("restore", target, zoo.home / "after")
    same_tree(tree, zoo.home / "after")
    time.sleep(1.1)
    duplicity("full", tree, target)
    duplicity("remove-all-but-n-full", "1", "--force", target)
    assert duplicity("collection-status", target).count("Full") >= 1
    duplicity("restore", target, zoo.home / "again")
    same_tree(tree, zoo.home / "again")
