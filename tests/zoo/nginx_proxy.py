"""nginx in front, configured as in docs/configuration.md."""
import proxy
from zoo import Daemon, Zoo, answers, free_port, install

install("nginx-light", "awscli")
with Zoo() as zoo:
    port = free_port()
    config = zoo.home / "nginx.conf"
    config.write_text(f"""daemon off;
pid {zoo.home}/nginx.pid;
error_log {zoo.home}/nginx.log;
worker_processes 2;
events {{}}
http {{
  access_log off;
  client_body_temp_path {zoo.home}/body;
  proxy_temp_path {zoo.home}/proxied;
  fastcgi_temp_path {zoo.home}/f; uwsgi_temp_path {zoo.home}/u; scgi_temp_path {zoo.home}/s;
  upstream verbena {{ server {zoo.endpoint.split("//")[1]}; keepalive 32; }}
  server {{
    listen 127.0.0.1:{port};
    ignore_invalid_headers off;
    client_max_body_size 0;
    location / {{
      proxy_pass http://verbena;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
    }}
  }}
}}
""")
    with Daemon("/usr/sbin/nginx", "-c", config, "-p", zoo.home, log=zoo.home / "nginx.log") as nginx:
        nginx.wait_for(lambda: answers(port))
        proxy.check(zoo, f"http://127.0.0.1:{port}")
