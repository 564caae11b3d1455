// An exchange whose answer a browser shows without running anything in it.
#pragma once

#include "http/server.h"

namespace verbena::admin {

// Forwards to the exchange, but adds two headers to its answer, whatever the object's type is: a page in a sandbox has
// an origin of its own and no scripts, and no type is guessed.
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
  std::vector<std::string> peer_certificates() const override { return exchange_.peer_certificates(); }
  void vouch() override { exchange_.vouch(); }
  void close_after() override { exchange_.close_after(); }
  Progress progress() const override { return exchange_.progress(); }

  // The latest moment for adding headers: an object's bytes are sent at once then.
  memory::Sink& sink(s3::Response& response) override {
    add(response);
    return exchange_.sink(response);
  }
  // An error replaces all headers.
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
