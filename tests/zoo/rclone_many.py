"""rclone with 20,000 files: uploaded, synchronised again without a transfer, checked, moved, and removed."""
import os

from zoo import BUCKET, Zoo, install, run

FILES = 20_000
install("rclone")
with Zoo() as zoo:
    tree = zoo.home / "tree"
    for index in range(FILES):
        path = tree / f"{index % 97:02}" / f"{index % 13}" / f"file {index}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(index % 5000))
    prefix = "RCLONE_CONFIG_V_"
    env = dict(zoo.env, RCLONE_CONFIG=str(zoo.home / "rclone.conf"))
    env.update({prefix + "TYPE": "s3", prefix + "PROVIDER": "Other", prefix + "ENDPOINT": zoo.endpoint, prefix + "REGION": "us-east-1",
                prefix + "ACCESS_KEY_ID": env["AWS_ACCESS_KEY_ID"], prefix + "SECRET_ACCESS_KEY": env["AWS_SECRET_ACCESS_KEY"]})
    rclone = lambda *words: run("rclone", "--retries", "1", "--transfers", "16", "--checkers", "16", *words, env=env)   # noqa: E731
    rclone("sync", tree, f"v:{BUCKET}/a")
    assert len(zoo.keys("a/")) == FILES
    stamp = lambda: {o["Key"]: o["LastModified"] for o in zoo.s3.list_objects_v2(Bucket=BUCKET, Prefix="a/")["Contents"]}   # noqa: E731
    before = stamp()
    rclone("sync", tree, f"v:{BUCKET}/a")
    assert stamp() == before, "sent again"
    rclone("check", tree, f"v:{BUCKET}/a")
    rclone("move", f"v:{BUCKET}/a", f"v:{BUCKET}/b")
    rclone("check", "--download", tree, f"v:{BUCKET}/b")
    rclone("purge", f"v:{BUCKET}/b")
    assert zoo.keys() == []
