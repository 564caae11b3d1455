"""Docker's registry: layers pushed in pieces and mounted, a manifest, all pulled again, and garbage collected."""
import hashlib
import http.client
import json
import os
import urllib.parse

from zoo import ACCESS_KEY, BUCKET, SECRET_KEY, MIB, Daemon, Zoo, answers, free_port, install, run

install("docker-registry")
with Zoo() as zoo:
    port = free_port()
    config = zoo.home / "registry.yml"
    config.write_text(f"""version: 0.1
storage:
  s3: {{accesskey: {ACCESS_KEY}, secretkey: {SECRET_KEY}, region: us-east-1, regionendpoint: "{zoo.endpoint}", bucket: {BUCKET},
       secure: false, v4auth: true, chunksize: 5242880, rootdirectory: /registry}}
  delete: {{enabled: true}}
  redirect: {{disable: true}}
http: {{addr: "127.0.0.1:{port}", secret: zoo}}
""")

    def ask(method, path, body=None, headers=None, expect=200):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status == expect, (method, path, answer.status, data[:500])
        return answer, data

    def location(answer):
        split = urllib.parse.urlsplit(answer.getheader("Location"))
        return split.path + (f"?{split.query}" if split.query else "")

    def push_blob(data, pieces):
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        answer, _ = ask("POST", "/v2/zoo/image/blobs/uploads/", expect=202)
        size = -(-len(data) // pieces)
        for at in range(0, len(data), size):
            piece = data[at:at + size]
            answer, _ = ask("PATCH", location(answer), piece,
                            {"Content-Type": "application/octet-stream", "Content-Range": f"{at}-{at + len(piece) - 1}"}, 202)
        path = location(answer)
        ask("PUT", f"{path}{'&' if '?' in path else '?'}digest={urllib.parse.quote(digest)}", b"", expect=201)
        return digest

    with Daemon("docker-registry", "serve", config, env=zoo.env, log=zoo.home / "registry.log") as registry:
        registry.wait_for(lambda: answers(port))
        layers = [os.urandom(23 * MIB), os.urandom(100)]
        config_blob = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}).encode()
        digests = [push_blob(layers[0], 3), push_blob(layers[1], 1)]
        media = "application/vnd.docker.distribution.manifest.v2+json"
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": media,
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config_blob), "digest": push_blob(config_blob, 1)},
            "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(data), "digest": digest}
                       for data, digest in zip(layers, digests)]}).encode()
        ask("PUT", "/v2/zoo/image/manifests/latest", manifest, {"Content-Type": media}, 201)
        answer, pulled = ask("GET", "/v2/zoo/image/manifests/latest", headers={"Accept": media})
        assert pulled == manifest
        for data, digest in zip(layers, digests):
            assert ask("GET", f"/v2/zoo/image/blobs/{digest}")[1] == data
        assert json.loads(ask("GET", "/v2/_catalog")[1])["repositories"] == ["zoo/image"]
        assert json.loads(ask("GET", "/v2/zoo/image/tags/list")[1])["tags"] == ["latest"]
        ask("POST", f"/v2/zoo/other/blobs/uploads/?mount={digests[0]}&from=zoo/image", b"", expect=201)
        ask("DELETE", f"/v2/zoo/image/manifests/{answer.getheader('Docker-Content-Digest')}", expect=202)
    run("docker-registry", "garbage-collect", config, env=zoo.env)
    assert not [key for key in zoo.keys("registry/docker/registry/v2/blobs/") if digests[1].split(":")[1] in key]
