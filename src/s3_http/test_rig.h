// For tests: a router over a store in memory, called as the HTTP door calls it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "call/account.h"
#include "s3/workers/request_log.h"
#include "s3_http/routing/router.h"
#include "store/memory/test_store.h"

namespace verbena::s3::test {

using MemoryStore = store::in_memory::TestStore;

// Yields a text, and at its end the error of a broken body.
class TextSource : public memory::Source {
 public:
  TextSource(std::string text, std::optional<uint64_t> size) : text_(std::move(text)), size_(size) {}
  std::optional<uint64_t> size() const override { return size_; }
  Task<Result<size_t>> read(MutableBytes into) override {
    if (const auto happens = std::exchange(meanwhile, nullptr)) co_await happens();
    const size_t n = std::min(into.size(), text_.size() - at_);
    std::memcpy(into.data(), text_.data() + at_, n);
    at_ += n;
    const bool end = n < into.size();
    if (end && error_at_end) co_return fail(*error_at_end, "source");
    co_return n;
  }
  uint64_t arrived() const override { return arrived_before_error; }
  std::optional<Errc> error_at_end;
  uint64_t arrived_before_error = 0;
  std::function<Task<>()> meanwhile;  // runs before the first byte

 private:
  std::string text_;
  std::optional<uint64_t> size_;
  size_t at_ = 0;
};

class TextSink : public memory::Sink {
 public:
  Task<Result<void>> begin(uint64_t length) override {
    begun = true;
    declared = length;
    co_return Result<void>();
  }
  Task<Result<void>> push(memory::Chunk chunk) override {
    text += as_text(chunk.bytes);
    co_return Result<void>();
  }
  Task<Result<void>> finish() override {
    finished = true;
    co_return Result<void>();
  }
  bool begun = false, finished = false;
  uint64_t declared = 0;
  std::string text;
};

struct Reply {
  bool whole = true;  // false: the door must cut the connection
  int status = 0;
  Headers headers;
  std::string body;  // what a client reads
  bool no_body = false;
  std::optional<uint64_t> content_length;
  std::string code;  // S3's error code
  uint64_t rdma_bytes = 0;

  std::string header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return "(none)";
  }
  bool has(std::string_view name) const { return header(name) != "(none)"; }
  // The text of the first element of that name.
  std::string element(const std::string& name) const {
    const size_t begin = body.find("<" + name + ">");
    if (begin == std::string::npos) return "(none)";
    const size_t from = begin + name.size() + 2;
    return body.substr(from, body.find("</" + name + ">", from) - from);
  }
  size_t count(std::string_view text) const {
    size_t n = 0;
    for (size_t at = body.find(text); at != std::string::npos; at = body.find(text, at + 1)) ++n;
    return n;
  }
};

struct TestCall {
  std::string method = "GET";
  std::string target = "/";  // path and query, encoded
  Headers headers{};
  std::string body{};
  bool anonymous = false;
  bool secure = false;             // came by TLS
  bool express = false;            // signed for S3 Express
  auth::PrincipalPtr principal{};  // null, and not anonymous: the superuser
  auth::AccessKeyPtr key{};        // the signing key, if a test needs it
  std::string host = "127.0.0.1";
  bool declare_length = true;
  std::string signed_headers = "host;x-amz-date;x-amz-rdma-bytes;x-amz-rdma-token";
  Headers trailers{};
  std::optional<Errc> source_error{};
  uint64_t arrived_before_error = 0;
  std::function<Task<>()> meanwhile{};  // runs between the headers and the body
};

class Rig : public ::testing::Test {
 protected:
  Rig()
      : arena(memory::Arena::create(64 * MiB).value()),
        store(*arena),
        service{store, *arena, system_clock(), "us-east-1", &verifier} {}

  // Runs a call within another one, on a loop of its own, so that it ends before the other continues.
  template <class T>
  T run(Task<T> task) {
    boost::asio::io_context aside;
    const bool within = std::exchange(running, true);
    boost::asio::io_context& loop = within ? aside : io;
    std::optional<T> result;
    std::exception_ptr thrown;
    auto done = [&](std::exception_ptr e, T value) {
      thrown = e;
      result = std::move(value);
    };
    boost::asio::co_spawn(loop, std::move(task), done);
    loop.restart();
    loop.run();
    running = within;
    if (thrown) std::rethrow_exception(thrown);
    return std::move(*result);
  }

  Reply call(TestCall c) {
    Call of;
    Request request{of};
    request.call.identity.anonymous = c.anonymous;
    request.call.identity.access_key = c.anonymous ? "" : "AKID";
    request.call.identity.principal = c.principal;
    request.call.identity.express = c.express;
    request.call.identity.key = c.key;
    if (service.credentials != nullptr) request.call.identity.generation = service.credentials->generation();
    request.call.identity.signed_headers = c.signed_headers;
    request.call.peer_address = "127.0.0.1";
    request.call.secure = c.secure;
    request.call.request_id = "0123456789ABCDEF";
    request.method = c.method;
    request.host = c.host;
    const size_t mark = std::min(c.target.find('?'), c.target.size());
    request.raw_path = std::string_view(c.target).substr(0, mark);
    request.raw_query = std::string_view(c.target).substr(std::min(mark + 1, c.target.size()));
    request.headers = c.headers;
    std::optional<uint64_t> length;
    if (c.declare_length) length = c.body.size();
    request.content_length = length;
    TextSource source(c.body, length);
    source.error_at_end = c.source_error;
    source.arrived_before_error = c.arrived_before_error;
    source.meanwhile = c.meanwhile;
    TextSink sink;
    Response response;
    Router router(service, windows, options);
    std::function<Headers()> trailing = [&] { return c.trailers; };
    Reply reply;
    reply.whole = run(answered(router.handle(request, source, trailing, response, sink)));
    reply.status = response.status;
    for (const auto& [name, value] : response.headers) reply.headers.emplace_back(name, value);
    reply.body = sink.begun ? sink.text : response.no_body ? "" : response.body;
    reply.no_body = response.no_body;
    reply.content_length = sink.begun ? std::optional(sink.declared) : response.content_length;
    reply.code = response.error_code;
    for (const auto& record : of.records) {
      record->finish(
          {.status = response.status},
          {.error_code = response.error_code, .bytes_out = reply.body.size(), .object_size = of.outcome.object_size});
    }
    reply.rdma_bytes = of.outcome.token_bytes;
    return reply;
  }
  Reply call(const std::string& method, const std::string& target, Headers headers = {}, std::string body = {}) {
    TestCall c;
    c.method = method;
    c.target = target;
    c.headers = std::move(headers);
    c.body = std::move(body);
    return call(std::move(c));
  }
  void make_bucket(const std::string& name = "bucket") { ASSERT_EQ(call("PUT", "/" + name).status, 200); }
  Reply put(const std::string& key, std::string body, Headers headers = {}) {
    return call("PUT", "/bucket/" + key, std::move(headers), std::move(body));
  }

  Task<bool> answered(Task<bool> request) {
    const bool whole = co_await std::move(request);
    if (const auto happens = std::exchange(when_answered, nullptr)) happens();
    co_return whole;
  }

  std::function<void()> when_answered;  // once, after the next request
  boost::asio::io_context io;
  bool running = false;  // within run()
  std::unique_ptr<memory::Arena> arena;
  MemoryStore store;
  auth::RootCredentials credentials{{"AKID", "SECRET", ""}};
  auth::Verifier verifier{credentials, system_clock(), {}};
  Service service;
  rdma::Dialect* windows = nullptr;
  Router::Options options;
};

// Well-formed, but of no existing version.
inline std::string nobodys_version() { return std::string(32, '0'); }

inline std::string pattern(size_t size) {
  std::string text(size, '\0');
  uint32_t state = 12345;
  for (char& c : text) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

inline std::string base64_digest(Algorithm algorithm, std::string_view text) {
  Digest digest(algorithm);
  digest.update(as_bytes(text));
  return digest.finish_base64();
}

inline std::string hex_md5(std::string_view text) {
  Digest digest(Algorithm::md5);
  digest.update(as_bytes(text));
  return digest.finish_hex();
}

}  // namespace verbena::s3::test
