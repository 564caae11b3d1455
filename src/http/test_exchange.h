// An exchange without a connection, for tests of handlers.
#pragma once

#include <cstdlib>
#include <string>

#include "http/server.h"
#include "memory/text_source.h"

namespace verbena::http {

class FakeExchange final : public Exchange {
 public:
  FakeExchange(std::string method, std::string path, std::string body)
      : method_(std::move(method)), path_(std::move(path)), body_(std::move(body)), source_(body_) {}
  std::string_view method() const override { return method_; }
  std::string_view path() const override { return path_; }
  std::string_view query() const override { return {}; }
  const s3::Headers& headers() const override { return request_headers; }
  std::optional<uint64_t> content_length() const override { return body_.size(); }
  bool secure() const override { return false; }
  std::string_view peer_address() const override { return peer; }
  memory::Source& body() override { return source_; }
  memory::Sink& sink(s3::Response&) override { std::abort(); }
  Task<Result<void>> reply(s3::Response& r) override {
    response = r;
    co_return Result<void>{};
  }
  std::vector<std::string> peer_certificates() const override { return certificates; }
  void vouch() override { ++vouched; }
  void close_after() override {}
  Progress progress() const override { return {}; }

  s3::Headers request_headers;
  s3::Response response;
  std::string peer = "127.0.0.1";
  std::vector<std::string> certificates;
  int vouched = 0;

 private:
  std::string method_, path_, body_;
  memory::TextSource source_;
};

}  // namespace verbena::http
