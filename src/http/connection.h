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

  // What the client has shown, the least first, and since when the connection is as it is: by these a listener chooses
  // which connections go when there are too many.
  enum class Shown : uint8_t {
    nothing,      // not a whole request head yet; or the rest of a body is read and dropped
    idle,         // after unsigned requests
    fresh,        // one of these two for less than a second: an honest client has shown more by then
    busy,         // a request that is not signed (yet) is served
    signed_idle,  // after requests of which one was signed
    signed_busy,  // one of those is served, or the connection goes already
  };
  struct Standing {
    Shown shown = Shown::nothing;
    Deadline since{};
    auto operator<=>(const Standing&) const = default;
  };
  Standing standing(Deadline now) const;
  void leave();  // for another to get in

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

  static constexpr int nobody = -1;

  Task<Next> exchanges();
  void begin_exchange();
  // 0: the head is there, and parsed; nobody: there is none any more; else the status to refuse it with. nullopt: more
  // of it has to be read, for so long.
  std::optional<int> look_for_head();
  std::optional<int> came(const Result<size_t>& read);
  std::chrono::nanoseconds head_timeout() const;
  // nullopt: the request is served, and the next one may come. The task is what there was to wait for.
  std::optional<Task<Next>> exchange();
  Task<Next> go_on(std::optional<Task<void>> rest, bool ran);
  Task<Next> refuse(int status);
  Task<void> linger();
  // The length that the head of an answer of `length` bytes declares: of a HEAD's, the object's.
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

  // Of the head that is being read:
  struct {
    HeadScanner scanner;
    std::optional<Deadline> deadline;
    ClientCounts::Hold large;
    bool nothing_yet = true;
  } reading_;

  // Of the exchange in progress:
  s3::Response* response_ = nullptr;
  uint64_t declared_ = 0;  // by the answer's head
  uint64_t bytes_out_ = 0;
  bool begun_ = false;
  bool finished_ = false;
  bool close_requested_ = false;
  bool keep_alive_ = false;  // what the answer's head told the client

  bool idle_ = true;

  const SteadyClock::time_point arrived_ = SteadyClock::now();
  bool exchanging_ = false;  // a request is served
  bool served_ = false;      // one has been
  bool signed_ = false;      // by a key that there is
  bool leaving_ = false, lingers_ = false;
};

}  // namespace verbena::http
