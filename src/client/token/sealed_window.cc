#include "client/token/sealed_window.h"

#include "base/copy.h"
#include "rdma/sealing.h"

namespace verbena::client {

using fabric::sealed::Direction;
using fabric::sealed::Transfer;

SealedWindow::SealedWindow(size_t length)
    : size_(length + fabric::sealed::trailer_size(length)),
      memory_(std::make_unique_for_overwrite<std::byte[]>(size_)) {
  fill_random(key_.bytes);
  const bool aes = fastest_aead() == AeadKind::aes_256_gcm;
  key_.sealing = aes ? fabric::Sealing::aes_256_gcm : fabric::Sealing::chacha20_poly1305;
}

std::string SealedWindow::header() const { return rdma::format_sealing(key_); }

MutableBytes SealedWindow::trailer_of(size_t length) const {
  return memory().subspan(length, fabric::sealed::trailer_size(length));
}

void SealedWindow::seal(Bytes from, const fabric::WindowDescriptor& lent) {
  Transfer transfer(key_, {}, Direction::to_server, lent, from.size());
  transfer.keep_tags_in(trailer_of(from.size()));
  transfer.seal(from, memory_.get());
}

bool SealedWindow::open(MutableBytes into, const fabric::sealed::Salt& salt, const fabric::WindowDescriptor& lent) {
  Transfer transfer(key_, salt, Direction::to_client, lent, into.size());
  transfer.keep_tags_in(trailer_of(into.size()));
  for (size_t i = 0, at = 0; i < transfer.records(); at += transfer.size_of(i++)) {
    const MutableBytes record(memory_.get() + at, transfer.size_of(i));
    if (!transfer.open(i, record, record.data())) return false;
    copy_bytes(into.data() + at, record);
  }
  return true;
}

}  // namespace verbena::client
