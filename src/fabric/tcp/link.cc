#include "fabric/tcp/link.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>

namespace verbena::fabric::tcp {
namespace {

constexpr size_t queued_max = 1 * MiB;
constexpr size_t answers_max = 4096;  // reads of the server in progress
constexpr size_t receives_per_poll = 4;

}  // namespace

TcpLink::TcpLink(Stream stream, size_t message_size_max)
    : message_size_max_(message_size_max),
      stream_(std::move(stream)),
      reader_(Side::client, message_size_max),
      outbox_(queued_max),
      scratch_(FrameReader::scratch_size(message_size_max)) {
  lending_->link = this;
}

TcpLink::~TcpLink() {
  const std::lock_guard lock(lending_->mutex);
  lending_->link = nullptr;
  cut();
}

Result<void> TcpLink::open() {
  wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return fail(Errc::io_error, "tcp: eventfd", errno);
  return {};
}

void TcpLink::cut() {
  closed_ = true;
  stream_.close();
}

Result<void> TcpLink::send(Bytes message) {
  const std::lock_guard lock(lending_->mutex);
  if (message.empty() || message.size() > message_size_max_) return fail(Errc::too_large, "tcp: message size");
  if (closed_) return fail(Errc::closed, "tcp: the server is gone");
  const Frame frame{.type = FrameType::message, .payload = static_cast<uint32_t>(message.size())};
  auto sent = outbox_.send(stream_, frame, std::span(&message, 1));
  if (!sent && sent.error().code != Errc::would_block) cut();
  return sent;
}

Result<size_t> TcpLink::poll(const OnMessage& handler) {
  const std::lock_guard lock(lending_->mutex);
  if (closed_) return fail(Errc::closed, "tcp: the server is gone");
  handler_ = &handler;
  events_ = 0;
  auto received = receive();
  handler_ = nullptr;
  if (received) {
    if (auto flushed = flush(); !flushed) received = std::unexpected(flushed.error());
  }
  if (!received) {
    cut();
    return std::unexpected(received.error());
  }
  return *received + events_;
}

Result<size_t> TcpLink::receive() {
  size_t total = 0;
  for (size_t turn = 0; turn < receives_per_poll; ++turn) {
    VB_ASSIGN(const Stream::Got got, stream_.read(reader_.targets(scratch_)));
    total += got.size;
    if (got.size != 0) VB_TRY(reader_.received(got.size, scratch_, *this));
    if (closed_) return fail(Errc::closed, "tcp: the link was cut");
    if (got.drained) break;
  }
  return total;
}

Result<void> TcpLink::flush() {
  if (outbox_.empty() && !stream_.backlogged()) return {};
  const size_t before = answers_.size();
  VB_TRY(outbox_.flush(stream_, sent_));
  for (Outgoing* out : sent_) {
    std::erase_if(answers_, [out](const auto& answer) { return &answer->out == out; });
  }
  sent_.clear();
  events_ += before - answers_.size();
  return {};
}

Result<void> TcpLink::message(Bytes message) {
  if (handler_ != nullptr) (*handler_)(message);
  return {};
}

// Payload for a withdrawn window is skipped: its memory may be in other use by now.
Result<std::byte*> TcpLink::landing(const Frame& frame) {
  return lending_->find(frame.id, Access::server_writes, frame.offset, frame.payload).data();
}

Result<void> TcpLink::control(const Frame& frame) {
  const MutableBytes asked = lending_->find(frame.id, Access::server_reads, frame.offset, frame.size);
  if (asked.empty()) return refuse(frame.operation);
  if (answers_.size() >= answers_max) return fail(Errc::malformed, "tcp: too many reads");
  auto answer = std::make_unique<Answer>();
  answer->window = frame.id;
  answer->out = {
      .type = FrameType::data, .id = frame.operation, .offset = 0, .bytes = asked.data(), .left = asked.size()};
  outbox_.add(answer->out);
  answers_.push_back(std::move(answer));
  return {};
}

Result<void> TcpLink::refuse(uint64_t operation) {
  const Frame refusal{.type = FrameType::refused, .id = operation};
  return outbox_.send(stream_, refusal, {});
}

void TcpLink::withdrawn(uint64_t key) {
  const Frame* landing = reader_.under_way();
  if (landing != nullptr && landing->id == key) reader_.skip_rest();
  for (auto it = answers_.begin(); it != answers_.end();) {
    if ((*it)->window != key) {
      ++it;
      continue;
    }
    // The rest of a frame in progress can only come from this memory.
    const uint64_t operation = (*it)->out.id;
    if (closed_ || !outbox_.cancel((*it)->out) || !refuse(operation)) cut();
    it = answers_.erase(it);
  }
}

// Sleeps on the socket, without the lock, so that other threads may send and lend.
void TcpLink::wait(Deadline deadline) {
  pollfd fds[2];
  {
    const std::lock_guard lock(lending_->mutex);
    if (closed_) return;
    const bool waits = !outbox_.empty() || stream_.backlogged();
    fds[0] = {stream_.fd(), static_cast<short>(waits ? POLLIN | POLLOUT : POLLIN), 0};
    fds[1] = {wake_.get(), POLLIN, 0};
  }
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - SteadyClock::now()).count();
  const timespec timeout{.tv_sec = std::clamp<int64_t>(left / 1'000'000'000, 0, 3600),
                         .tv_nsec = std::max<int64_t>(left, 0) % 1'000'000'000};
  if (!woken_.load() && ::ppoll(fds, 2, &timeout, nullptr) > 0 && fds[1].revents != 0) {
    uint64_t count;
    [[maybe_unused]] const ssize_t drained = ::read(wake_.get(), &count, sizeof count);
  }
  woken_ = false;
}

void TcpLink::wake() {
  if (woken_.exchange(true)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

Result<std::unique_ptr<Lent>> TcpLink::lend(MutableBytes memory, Access access) {
  const std::lock_guard lock(lending_->mutex);
  if (closed_) return fail(Errc::closed, "tcp: the server is gone");
  return tcp::lend(lending_, memory, access);
}

}  // namespace verbena::fabric::tcp
