"""HAProxy in front, with health checks on the server's request port."""
import proxy
from zoo import Daemon, Zoo, answers, free_port, install

install("haproxy", "awscli")
with Zoo() as zoo:
    port = free_port()
    config = zoo.home / "haproxy.cfg"
    config.write_text(f"""defaults
  mode http
  timeout connect 5s
  timeout client 1m
  timeout server 1m
  option http-keep-alive
frontend s3
  bind 127.0.0.1:{port}
  default_backend verbena
backend verbena
  option httpchk GET /-/health
  server one {zoo.endpoint.split("//")[1]} check inter 500ms
""")
    with Daemon("/usr/sbin/haproxy", "-db", "-f", config, log=zoo.home / "haproxy.log") as haproxy:
        haproxy.wait_for(lambda: answers(port))
        proxy.check(zoo, f"http://127.0.0.1:{port}")
