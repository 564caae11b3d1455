#include <algorithm>

#include "base/bytes.h"
#include "cli/object_digest.h"
#include "cli/tree_copy.h"
#include "client/http/object_headers.h"
#include "client/outcome.h"

namespace verbena::cli {

using client::fault;

namespace {

constexpr uint64_t copied_whole_max = 64 * MiB;  // larger objects go in pieces
constexpr uint64_t copied_piece_bytes = 16 * MiB;

}  // namespace

Outcome<PutReply> copy_object(const Client& client, const S3Address& from, const S3Address& to) {
  OUT_ASSIGN(const ObjectInfo info, client.head(from.bucket, from.key));
  PutOptions put;
  put.content_type = info.content_type;
  put.metadata = info.metadata;
  for (const auto& [name, value] : info.headers) {
    if (client::is_stored_header(name)) put.headers.emplace(name, value);
  }
  GetOptions get;
  get.if_match = info.etag;  // all of one version
  if (info.size == 0) return client.put(to.bucket, to.key, std::span<const std::byte>(), put);
  if (info.size <= copied_whole_max) {
    OUT_ASSIGN(const Buffer buffer, client.allocate(info.size));
    OUT_TRY(client.get(from.bucket, from.key, buffer, get));
    return client.put(to.bucket, to.key, buffer, put);
  }
  put.stream_size = info.size;
  uint64_t at = 0;
  ObjectDigest digest(info.checksum);
  const auto read = [&](std::span<std::byte> into) -> Outcome<size_t> {
    size_t filled = 0;
    while (filled < into.size() && at < info.size) {
      get.range = Range{at, std::min({copied_piece_bytes, into.size() - filled, info.size - at})};
      OUT_ASSIGN(const GetReply got, client.get(from.bucket, from.key, into.subspan(filled), get));
      if (got.bytes != get.range->length)
        return fault(ErrorCode::malformed_reply, "a range came back shorter than asked");
      digest.update(into.subspan(filled, got.bytes));
      filled += got.bytes;
      at += got.bytes;
    }
    // The end of the stream: an error here leaves nothing of it.
    if (filled < into.size()) OUT_TRY(digest.check());
    return filled;
  };
  return client.put_stream(to.bucket, to.key, read, put);
}

}  // namespace verbena::cli
