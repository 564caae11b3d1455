"""pgBackRest: a full and an incremental backup of a running PostgreSQL, its log archived, and both restored
elsewhere."""
from postgres import USER, Postgres
from zoo import ACCESS_KEY, BUCKET, SECRET_KEY, Zoo, install, own, run

install("postgresql", "pgbackrest", "openssl")
with Zoo(tls=True) as zoo:   # it supports TLS alone
    folder = zoo.home / "pgbackrest"
    folder.mkdir()
    config = folder / "pgbackrest.conf"
    port = zoo.endpoint.rsplit(":", 1)[1]
    backrest = lambda *words: run("pgbackrest", f"--config={config}", "--stanza=main", *words, user=USER, cwd="/")   # noqa: E731
    database = Postgres(folder, archive_command=f"pgbackrest --config={config} --stanza=main archive-push %p").make()
    config.write_text(f"""[global]
repo1-type=s3
repo1-path=/backups
repo1-s3-bucket={BUCKET}
repo1-s3-endpoint=localhost
repo1-storage-port={port}
repo1-storage-ca-file={zoo.ca}
repo1-s3-region=us-east-1
repo1-s3-uri-style=path
repo1-s3-key={ACCESS_KEY}
repo1-s3-key-secret={SECRET_KEY}
repo1-retention-full=1
repo1-bundle=y
start-fast=y
process-max=2
log-path={folder}
lock-path={folder}/lock
spool-path={folder}/spool
[main]
pg1-path={database.data}
pg1-port={database.port}
pg1-socket-path={database.socket}
""")
    own(folder, USER)
    database.start()
    try:
        backrest("stanza-create")
        backrest("check")
        database.sql("create table kept as select n, md5(n::text) as text from generate_series(1, 100000) n")
        backrest("--type=full", "backup")
        database.sql("insert into kept select n, 'later' from generate_series(100001, 150000) n")
        backrest("--type=incr", "backup")
        wanted = database.sql("select count(*), md5(string_agg(text, '' order by n)) from kept")
        backrest("--type=full", "backup")   # the first one expires: objects are removed
        backrest("info")
    finally:
        database.stop()
    restored = Postgres(folder, name="restored")
    backrest(f"--pg1-path={restored.data}", "restore")
    restored.restore = f"pgbackrest --config={config} --stanza=main archive-get %f %p"
    restored.start()
    try:
        assert restored.sql("select count(*), md5(string_agg(text, '' order by n)) from kept") == wanted
    finally:
        restored.stop()
