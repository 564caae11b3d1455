// An exchange whose answer a browser shows without running anything in it.
#pragma once

#include "http/server.h"

namespace verbena::admin {

// Everything is the exchange's own, but that its answer gets two headers more, whatever the object's type is: a page
// in a sandbox has an origin of its own and no scripts, and no type is guessed.
class Sandboxed final : public http::Exchange {
 public:
  explicit Sandboxed(http::Exchange& exchange) : exchange_(exchange) {}

  std::string_view method() const override { return exchange_.method(); }
  std::string_view path() const override { return exchange_.path(); }
  std::string_view query() const override { return exchange_.query(); }
  const s3::Headers& headers() const override { return exchange_.headers(); }
  std::optional<uint64_t> content_length() const override { return exchange_.content_length(); }
  bool secure() const override { return exchange_.secure(); }
  std::string_view peer_address() const override { return exchange_.peer_address(); }
  memory::Source& body() override { return exchange_.body(); }
  void close_after() override { exchange_.close_after(); }
  Progress progress() const override { return exchange_.progress(); }

  // At the latest when its own headers are there: an object's bytes go out at once then.
  memory::Sink& sink(s3::Response& response) override {
    add(response);
    return exchange_.sink(response);
  }
  // Errors begin their headers anew.
  Task<Result<void>> reply(s3::Response& response) override {
    add(response);
    return exchange_.reply(response);
  }

 private:
  static void add(s3::Response& response) {
    response.headers.erase("content-security-policy");
    response.headers.erase("x-content-type-options");
    response.headers.emplace_back("content-security-policy", "sandbox; default-src 'none'");
    response.headers.emplace_back("x-content-type-options", "nosniff");
  }
  http::Exchange& exchange_;
};

}  // namespace verbena::admin
