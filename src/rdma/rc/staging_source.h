// A PUT's bytes out of a session's staging memory, after the client's last write has arrived there.
#pragma once

#include <memory>

#include "memory/gives_chunk.h"
#include "memory/stream.h"
#include "rdma/rc/channel.h"
#include "rdma/rc/sessions.h"

namespace verbena::rdma::rc {

class StagingSource : public memory::Source, public memory::GivesChunk {
 public:
  StagingSource(Endpoint& endpoint, SessionPtr session, std::shared_ptr<Channel> channel, Deadline deadline)
      : endpoint_(endpoint), session_(std::move(session)), channel_(std::move(channel)), deadline_(deadline) {}
  std::optional<uint64_t> size() const override { return session_->asked.size; }
  Task<Result<void>> ready() override;
  Task<Result<size_t>> read(MutableBytes into) override;
  std::optional<memory::Chunk> give_all() override;
  uint64_t arrived() const override { return arrived_ ? session_->asked.size : 0; }

 private:
  Task<void> end_access();

  Endpoint& endpoint_;
  SessionPtr session_;
  std::shared_ptr<Channel> channel_;
  Deadline deadline_;
  bool arrived_ = false;
  Result<void> outcome_;
  uint64_t taken_ = 0;
};

}  // namespace verbena::rdma::rc
