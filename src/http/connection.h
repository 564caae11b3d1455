// One connection: its exchanges, one after the other. Internal to http/.
#pragma once

#include <memory>
#include <string>

#include "http/body.h"
#include "http/head_parser.h"
#include "http/input.h"
#include "http/listener.h"
#include "http/server.h"
#include "http/wire.h"

namespace verbena::http {

class Connection final : public Exchange, public std::enable_shared_from_this<Connection> {
 public:
  // `room`: its place among the door's connections.
  Connection(std::shared_ptr<ListenerState> listener, Wire::tcp::socket socket, std::string peer_address,
             ConnectionRoom::Place room);
  ~Connection() override;

  // The coroutine of a connection's whole life. The pointer is its owner.
  static Task<void> serve(std::shared_ptr<Connection> self);

  Wire& wire() { return wire_; }
  bool idle() const { return idle_; }  // between requests, nothing of the next one seen

  // The connection's state by the client's activity, the least active first, and since when: near the limit a listener
  // closes connections in this order.
  enum class Shown : uint8_t {
    nothing,      // no complete request head yet, or draining the rest of a body
    idle,         // after unsigned requests
    fresh,        // in one of these two states for less than a second
    busy,         // serving a request that is not signed, or not verified yet
    signed_idle,  // idle, after at least one signed request
    signed_busy,  // serving such a client's request, or closing already
  };
  struct Standing {
    Shown shown = Shown::nothing;
    Deadline since{};
    auto operator<=>(const Standing&) const = default;
  };
  Standing standing(Deadline now) const;
  void leave();  // closes the connection to make room

  // Exchange
  std::string_view method() const override { return head_.method; }
  std::string_view path() const override { return head_.path; }
  std::string_view query() const override { return head_.query; }
  const s3::Headers& headers() const override { return head_.headers; }
  std::optional<uint64_t> content_length() const override { return head_.content_length; }
  bool secure() const override { return wire_.secure(); }
  std::string_view peer_address() const override { return peer_address_; }
  std::vector<std::string> peer_certificates() const override { return wire_.peer_certificates(); }
  memory::Source& body() override { return body_; }
  memory::Sink& sink(s3::Response& response) override;
  Task<Result<void>> reply(s3::Response& response) override;
  void close_after() override { close_requested_ = true; }
  void vouch() override { signed_ = true; }
  Progress progress() const override { return {begun_, body_.arrived(), bytes_out_}; }

 private:
  class ResponseSink final : public memory::Sink {
   public:
    explicit ResponseSink(Connection& connection) : connection_(connection) {}
    Task<Result<void>> begin(uint64_t length) override;
    Result<memory::AtOnce> send_at_once(uint64_t length, memory::Pieces& pieces) override;
    Task<Result<void>> push(memory::Chunk chunk) override;
    Task<Result<void>> drained() override;
    Task<Result<void>> finish() override;

   private:
    Connection& connection_;
  };
  enum class Next { keep, close, linger };

  Task<Next> exchanges();
  void begin_exchange();
  // The head of a request as read so far. incomplete: read on, for at most head_timeout().
  struct HeadState {
    enum class Kind : uint8_t { incomplete, parsed, refused, closed } kind;
    int status = 0;  // to refuse it with
  };
  HeadState look_for_head();
  HeadState take_input(const Result<size_t>& read);
  std::chrono::nanoseconds head_timeout() const;
  // nullopt: the request was served, and the next one may follow. Else the task completes it.
  std::optional<Task<Next>> exchange();
  Task<Next> go_on(std::optional<Task<void>> rest, bool ran);
  Task<Next> refuse(int status);
  Task<void> linger();
  // The length declared in the head of an answer of `length` bytes; for a HEAD, the object's.
  std::optional<uint64_t> head_length(uint64_t length) const {
    return response_->no_body && response_->content_length ? response_->content_length : length;
  }
  void write_head(s3::Response& response, std::optional<uint64_t> content_length);

  std::shared_ptr<ListenerState> listener_;
  const ConnectionRoom::Place room_;
  ListenerState::Place place_;
  Wire wire_;
  Input input_;
  Body body_;
  ResponseSink sink_;
  RequestHead head_;
  std::string peer_address_;

  // About the head being read:
  struct {
    HeadScanner scanner;
    std::optional<Deadline> deadline;
    ClientCounts::Hold large;
    bool nothing_yet = true;
  } reading_;

  // About the exchange in progress:
  s3::Response* response_ = nullptr;
  uint64_t declared_ = 0;  // by the answer's head
  uint64_t bytes_out_ = 0;
  bool begun_ = false;
  bool finished_ = false;
  bool close_requested_ = false;
  bool keep_alive_ = false;  // as declared in the answer's head

  bool idle_ = true;

  const SteadyClock::time_point arrived_ = SteadyClock::now();
  bool exchanging_ = false;  // a request is being served
  bool served_ = false;      // at least one was served
  bool signed_ = false;      // at least one was signed by an existing key
  bool leaving_ = false, lingers_ = false;
};

}  // namespace verbena::http
