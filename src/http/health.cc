#include "http/health.h"

namespace verbena::http {

bool asks_health(std::string_view method, std::string_view path) {
  return path == "/-/health" && (method == "GET" || method == "HEAD");
}

void answer_health(std::string_view method, bool stopping, s3::Response& response) {
  response.status = stopping ? 503 : 200;
  response.headers.emplace_back("content-type", "text/plain");
  response.body = stopping ? "stopping\n" : "ok\n";
  response.no_body = method == "HEAD";
}

}  // namespace verbena::http
