"""restic: twenty snapshots of a changing tree, pruned to the last two, all data read again."""
import os
import random

from zoo import BUCKET, Zoo, grow_tree, install, run, same_tree

install("restic")
with Zoo() as zoo:
    tree = zoo.home / "tree"
    grow_tree(tree, files=300)
    env = dict(zoo.env, RESTIC_REPOSITORY=f"s3:{zoo.endpoint}/{BUCKET}/backup", RESTIC_PASSWORD="x", RESTIC_CACHE_DIR=str(zoo.home / "cache"))
    restic = lambda *words: run("restic", "--quiet", *words, env=env)   # noqa: E731
    restic("init")
    chance = random.Random(1)
    for round_number in range(20):
        for path in chance.sample(sorted(p for p in tree.rglob("*.txt")), 20):
            path.write_bytes(os.urandom(chance.randrange(200_000)))
        (tree / f"round {round_number}").write_bytes(os.urandom(1_000_000))
        restic("backup", tree)
    before = len(zoo.keys())
    restic("forget", "--keep-last", "2", "--prune")
    assert len(zoo.keys()) < before
    restic("check", "--read-data")
    restic("restore", "latest", "--target", zoo.home / "back")
    same_tree(tree, zoo.home / "back" / tree.relative_to("/"))
