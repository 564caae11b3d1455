"""barman-cloud: a base backup and the log of a PostgreSQL, restored elsewhere."""
from postgres import USER, Postgres
from zoo import BUCKET, Zoo, install, own, run

install("postgresql", "barman-cli-cloud", "python3-boto3")
with Zoo() as zoo:
    folder = zoo.home / "barman"
    folder.mkdir()
    own(folder, USER)
    env = dict(zoo.env, HOME=str(folder))
    where = (f"--endpoint-url={zoo.endpoint}",)
    target = (f"s3://{BUCKET}/barman", "main")
    barman = lambda verb, *words: run(f"barman-cloud-{verb}", *where, *words, user=USER, cwd="/", env=env)   # noqa: E731
    keys = " ".join(f"{name}={env[name]}" for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"))
    archive = f"env {keys} barman-cloud-wal-archive {where[0]} --gzip {target[0]} {target[1]} %p"
    database = Postgres(folder, archive_command=archive).make().start()
    try:
        database.sql("create table kept as select n, md5(n::text) as text from generate_series(1, 200000) n")
        barman("backup", "--jobs=2", "-h", database.socket, "-p", database.port, "-U", USER, *target)
        database.sql("insert into kept select n, 'later' from generate_series(200001, 250000) n")
        wanted = database.sql("select count(*), md5(string_agg(text, '' order by n)) from kept")
        database.sql("select pg_switch_wal()")
        last = database.sql("select pg_walfile_name(pg_switch_wal())")
    finally:
        database.stop()   # which waits for the archiver
    listed = barman("backup-list", "--format=json", *target)
    backup = __import__("json").loads(listed)["backups_list"][0]["backup_id"]
    restored = Postgres(folder, name="restored")
    restored.data.mkdir(mode=0o700)
    own(restored.data, USER)
    barman("restore", *target, backup, restored.data)
    restored.restore = f"env {keys} barman-cloud-wal-restore {where[0]} {target[0]} {target[1]} %f %p"
    (restored.data / "recovery.signal").touch()
    own(restored.data / "recovery.signal", USER)
    restored.start()
    try:
        assert restored.sql("select count(*), md5(string_agg(text, '' order by n)) from kept") == wanted, last
    finally:
        restored.stop()
