// Whole requests of S3, as the router gets them of a superuser: all documents, headers and queries of every verb.
// Input: requests, each a line "METHOD TARGET", header lines, an empty line, a body; a line of "---" ends it. What an
// input cannot know is filled in: the digest of a body for the value "?" of content-md5 or x-amz-checksum-crc32, and in
// targets, headers and bodies @UPLOAD, @VERSION, @ETAG and @SESSION, which earlier answers gave, and @MEMORY, the
// client's. All headers are signed. Each request is answered, errors with a document, and a store in memory stands
// behind. The calls and tokens of the dialects over reliable connections are served by a double of an RDMA device.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/checksum.h"
#include "base/decimal.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/text.h"
#include "memory/arena.h"
#include "rdma/dc/descriptors.h"
#include "rdma/dc/test_fabric.h"
#include "rdma/rc/reliable_connections.h"
#include "rdma/rc/test_device.h"
#include "s3_http/routing/router.h"
#include "store/memory/test_store.h"

namespace {

using namespace verbena;

void expect(bool holds) {
  if (!holds) std::abort();
}

class Body final : public memory::Source {
 public:
  explicit Body(std::string_view text) : text_(text) {}
  std::optional<uint64_t> size() const override { return text_.size(); }
  Task<Result<size_t>> read(MutableBytes into) override {
    const size_t n = std::min(into.size(), text_.size() - at_);
    std::memcpy(into.data(), text_.data() + at_, n);
    at_ += n;
    co_return n;
  }
  uint64_t arrived() const override { return 0; }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

class Sink final : public memory::Sink {
 public:
  Task<Result<void>> begin(uint64_t length) override {
    declared = length;
    begun = true;
    co_return Result<void>();
  }
  Task<Result<void>> push(memory::Chunk chunk) override {
    bytes += chunk.bytes.size();
    co_return Result<void>();
  }
  Task<Result<void>> finish() override { co_return Result<void>(); }
  bool begun = false;
  uint64_t declared = 0, bytes = 0;
};

struct Said {
  std::string method, target, body;
  s3::Headers headers;
};

std::string digest(Algorithm algorithm, std::string_view text) {
  Digest made(algorithm);
  made.update(as_bytes(text));
  return made.finish_base64();
}

void replace_all(std::string& text, std::string_view mark, const std::string& by) {
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + by.size())) {
    text.replace(at, mark.size(), by);
    if (text.size() > 100'000) return;
  }
}

std::string_view take_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

Said take_request(std::string_view& rest) {
  constexpr std::string_view end_mark = "\n---\n";
  const size_t end = std::min(rest.find(end_mark), rest.size());
  std::string_view text = rest.substr(0, end);
  rest.remove_prefix(std::min(end + end_mark.size(), rest.size()));
  Said said;
  const std::string_view first = take_line(text);
  const size_t space = std::min(first.find(' '), first.size());
  said.method = first.substr(0, space);
  said.target = first.substr(std::min(space + 1, first.size()));
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) break;
    std::string name(line.substr(0, colon));
    for (char& c : name) c = lower(c);
    said.headers.emplace_back(std::move(name), std::string(trim(line.substr(colon + 1))));
  }
  said.body = text;
  return said;
}

constexpr size_t arena_size = 16 * MiB;

memory::Arena& arena() {
  static auto& one = *memory::Arena::create(arena_size)->release();
  return one;
}

// One device for all inputs: opening it starts threads. What an input leaves there ends with it.
class Reliable {
 public:
  static Reliable& get() {
    static auto& one = *new Reliable;
    return one;
  }
  void forget() {
    connections->sessions.reap(deadline_in(std::chrono::hours(1)));
    connections->connections.reap(deadline_in(std::chrono::hours(1)));
  }
  rdma::rc::test::Fabric device;
  rdma::dc::test::Fabric dc_device;
  std::unique_ptr<rdma::rc::ReliableConnections> connections;
  std::unique_ptr<rdma::dc::Descriptors> descriptors;
  rdma::Dialects dialects;

 private:
  Reliable() {
    device.memory.resize(4096);
    auto endpoint = rdma::rc::Endpoint::create(arena(), {"127.0.0.1"}, [this] { return device.open(); });
    connections = std::make_unique<rdma::rc::ReliableConnections>(std::move(*endpoint));
    dialects.add(connections->connections);
    dc_device.clients[0xc1d].lent[rdma::rc::test::Fabric::client_key] = {device.memory};
    const auto open_dc = [this](std::string_view but, const rdma::dc::Device::MakeRoom& room) {
      return rdma::dc::Device::open(dc_device.verbs(), {}, arena(), but, room);
    };
    descriptors =
        rdma::dc::Descriptors::create({"127.0.0.1"}, open_dc, {.settle = std::chrono::milliseconds(0)}).value();
    dialects.add(*descriptors);
  }
};

class Server {
 public:
  Server() { log::set_level(log::Level::error); }
  ~Server() { Reliable::get().forget(); }
  void serve(Said said) {
    fill_in(said);
    s3::Call of;
    s3::Request request{of};
    request.call.identity.anonymous = false;
    request.call.identity.access_key = "AKID";
    request.call.identity.principal = auth::superuser();
    std::string signed_headers = "host";
    for (const auto& [name, value] : said.headers) signed_headers += ';' + name;
    request.call.identity.signed_headers = signed_headers;
    request.call.peer_address = "127.0.0.1";
    request.call.request_id = "0123456789ABCDEF";
    request.method = said.method;
    request.host = "127.0.0.1";
    const std::string_view target = said.target;
    const size_t mark = std::min(target.find('?'), target.size());
    request.raw_path = target.substr(0, mark);
    request.raw_query = target.substr(std::min(mark + 1, target.size()));
    request.headers = said.headers;
    request.content_length = said.body.size();
    Body source(said.body);
    Sink sink;
    s3::Response response;
    s3::RouterOptions options;
    options.connections = Reliable::get().connections.get();
    s3::Router router(service_, &Reliable::get().dialects, options);
    const std::function<s3::Headers()> trailing = [] { return s3::Headers(); };
    std::optional<bool> whole;
    boost::asio::io_context io;
    boost::asio::co_spawn(io, router.handle(request, source, trailing, response, sink),
                          [&](std::exception_ptr thrown, bool is_whole) {
                            if (thrown) std::rethrow_exception(thrown);
                            whole = is_whole;
                          });
    io.run();
    expect(whole.has_value());
    if (sink.begun && *whole) expect(sink.bytes == sink.declared);
    expect(response.status >= 200 && response.status < 600);
    if (response.status >= 400 && !response.no_body && !sink.begun) expect(!response.body.empty());
    status_ = response.status;
    learn(response);
    write_what_is_prepared(said, response);
    for (const auto& [name, value] : response.headers) {
      expect(std::string_view(value).find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos);
    }
  }

  int last_status() const { return status_; }

 private:
  void fill_in(Said& said) {
    std::vector<std::string*> texts{&said.target, &said.body};
    for (auto& [name, value] : said.headers) texts.push_back(&value);
    for (std::string* text : texts) {
      replace_all(*text, "@UPLOAD", upload_);
      replace_all(*text, "@VERSION", version_);
      replace_all(*text, "@ETAG", etag_);
      replace_all(*text, "@SESSION", session_);
      replace_all(*text, "@MEMORY", memory_);
    }
    for (auto& [name, value] : said.headers) {
      if (value != "?") continue;
      if (name == "content-md5") value = digest(Algorithm::md5, said.body);
      if (name == "x-amz-checksum-crc32") value = digest(Algorithm::crc32, said.body);
    }
  }
  void learn(const s3::Response& response) {
    constexpr std::string_view open = "<UploadId>";
    const size_t at = response.body.find(open), end = response.body.find("</UploadId>");
    if (at < end && end != std::string::npos) {
      upload_ = response.body.substr(at + open.size(), end - at - open.size());
    }
    for (const auto& [name, value] : response.headers) {
      if (std::string_view(name) == "x-amz-version-id") version_ = std::string_view(value);
      if (std::string_view(name) == "etag") etag_ = std::string_view(value);
      if (std::string_view(name) == "x-amz-rdma-session") session_ = std::string_view(value);
    }
  }

  // The client's write, for which READY of a PUT would wait half a minute: of the size and with the cookie that PREPARE
  // said, as far as they can be read, else of a byte, so that READY has something to refuse.
  static void write_what_is_prepared(const Said& said, const s3::Response& response) {
    const auto number = [](const auto& headers, std::string_view named) -> uint64_t {
      for (const auto& [name, value] : headers) {
        if (std::string_view(name) == named) return parse_hex(std::string_view(value)).value_or(0);
      }
      return 0;
    };
    const uint64_t at = number(response.headers, "x-amz-rdma-mr-addr");
    if (at == 0) return;
    const auto pair = static_cast<uint32_t>(number(response.headers, "x-amz-rdma-qpn"));
    const auto key = static_cast<uint32_t>(number(response.headers, "x-amz-rdma-mr-rkey"));
    const auto cookie = static_cast<uint32_t>(number(said.headers, "x-amz-rdma-cookie"));
    size_t size = 0;
    for (const auto& [name, value] : said.headers) {
      if (name == "x-amz-rdma-size") size = parse_decimal(value).value_or(0);
    }
    rdma::rc::test::Fabric& device = Reliable::get().device;
    const std::vector<std::byte> bytes(std::min<size_t>(size, arena_size), std::byte{'w'});
    if (device.client_writes(pair, at, key, bytes, cookie)) return;
    expect(device.client_writes(pair, at, key, Bytes(bytes).first(std::min<size_t>(bytes.size(), 1)), cookie));
  }

  int status_ = 0;
  std::string upload_ = "none", version_ = "null", etag_ = "none", session_ = std::string(32, '0');
  const std::string memory_ = fmt::format("{:x}", Reliable::get().device.address());
  store::in_memory::TestStore store_{arena()};
  auth::RootCredentials credentials_{{"AKID", "SECRET", ""}};
  auth::Verifier verifier_{credentials_, system_clock(), {}};
  s3::Service service_{store_, arena(), system_clock(), "us-east-1", &verifier_};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  Server server;  // a new store: inputs do not see each other
  server.serve({.method = "PUT", .target = "/bucket", .body = {}, .headers = {}});
  server.serve({.method = "PUT", .target = "/bucket/key", .body = "some bytes", .headers = {}});
  expect(server.last_status() == 200);
  for (int i = 0; i < 8 && !rest.empty(); ++i) {
    const Said said = take_request(rest);
    // The door's own parser lets no other target through.
    if (!said.target.starts_with('/') || said.target.find_first_of(" \t\r#") != std::string_view::npos) continue;
    server.serve(said);
  }
  return 0;
}
