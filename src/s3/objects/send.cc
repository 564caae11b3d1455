#include "s3/objects/send.h"

#include <boost/asio/this_coro.hpp>

#include "memory/budget.h"
#include "s3/access/quota.h"
#include "s3/objects/read_ahead.h"

namespace verbena::s3 {
namespace {

class PiecesInMemory final : public memory::Pieces {
 public:
  explicit PiecesInMemory(const OpenObject& object) : object_(object) {}
  memory::Chunk next() override {
    memory::Chunk piece = object_.reader->peek(object_.offset + given_, object_.length - given_);
    given_ += piece.bytes.size();
    return piece;
  }
  bool done() const { return given_ == object_.length; }

 private:
  const OpenObject& object_;
  uint64_t given_ = 0;
};

Task<Result<void>> push_and_note(const OpenObject& object, memory::Sink& sink, memory::Chunk chunk) {
  const size_t size = chunk.bytes.size();
  VB_CO_TRY(co_await sink.push(std::move(chunk)));
  object.charge->moved(size);
  co_return Result<void>{};
}

// A chunk that the sink accepted counts as moved, even if later ones fail.
Task<Result<void>> push_charged(const OpenObject& object, memory::Sink& sink, memory::Chunk chunk) {
  if (object.charge == nullptr) return sink.push(std::move(chunk));
  return push_and_note(object, sink, std::move(chunk));
}

Task<Result<void>> push_pieces(const OpenObject& object, memory::Sink& sink, RequestTrace* trace) {
  const ScopedStage on_wire(trace, Stage::wire);
  VB_CO_TRY(co_await sink.begin(object.length));
  for (PiecesInMemory pieces(object); !pieces.done();) {
    memory::Chunk piece = pieces.next();
    if (piece.bytes.empty()) co_return fail(Errc::internal, "get: a hot object has a hole");
    VB_CO_TRY(co_await push_charged(object, sink, std::move(piece)));
  }
  co_return co_await sink.finish();
}

Task<Result<void>> push_read_ahead(Service& service, const OpenObject& object, memory::Sink& sink,
                                   RequestTrace* trace) {
  auto executor = co_await boost::asio::this_coro::executor;
  ReadAhead chunks(executor, service.arena, object.peer, object.reader, object.offset, object.length, trace);
  // The first chunk is read before the head is sent: damage in it is an error response, not a truncated body.
  VB_CO_ASSIGN(memory::Chunk chunk, co_await chunks.next());
  {
    const ScopedStage on_wire(trace, Stage::wire);
    VB_CO_TRY(co_await sink.begin(object.length));
    VB_CO_TRY(co_await push_charged(object, sink, std::move(chunk)));
  }
  while (!chunks.done()) {
    if (chunks.scarce()) {
      const ScopedStage on_wire(trace, Stage::wire);
      VB_CO_TRY(co_await sink.drained());
    }
    VB_CO_ASSIGN(memory::Chunk next, co_await chunks.next());
    const ScopedStage on_wire(trace, Stage::wire);
    VB_CO_TRY(co_await push_charged(object, sink, std::move(next)));
  }
  const ScopedStage on_wire(trace, Stage::wire);
  co_return co_await sink.finish();
}

// A small object in memory is in one piece.
bool in_memory(const OpenObject& object) {
  return object.length <= memory::Budget::unit && !object.reader->peek(object.offset, object.length).bytes.empty();
}

}  // namespace

Result<memory::AtOnce> send_now(const OpenObject& object, memory::Sink& sink) {
  PiecesInMemory pieces(object);
  const auto sent = sink.send_at_once(object.length, pieces);
  if (object.charge != nullptr && sent && *sent != memory::AtOnce::unsupported) charge_sent(object);
  return sent;
}

void charge_sent(const OpenObject& object) {
  if (object.charge == nullptr) return;
  object.charge->begin(object.length);
  object.charge->moved(object.length);
}

Task<Result<void>> send_object(Service& service, const OpenObject& object, memory::Sink& sink, RequestTrace* trace) {
  if (object.charge != nullptr) object.charge->begin(object.length);
  if (object.length == 0 || in_memory(object)) return push_pieces(object, sink, trace);
  return push_read_ahead(service, object, sink, trace);
}

}  // namespace verbena::s3
