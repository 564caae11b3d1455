#include "store/logic/usage.h"

#include "store/logic/codec.h"
#include "store/logic/keys.h"

namespace verbena::store {
namespace {

Result<Usage> count_heads(Moment& rows, Table table, std::string prefix, const std::function<bool()>& goes_on) {
  Usage usage;
  const auto cursor = rows.cursor(table, std::move(prefix));
  for (; cursor->valid(); cursor->next()) {
    if (!goes_on()) return fail(Errc::cancelled, "usage");
    VB_ASSIGN(const ObjectRecord record, decode_object(cursor->value()));
    usage += table == Table::objects ? as_current(record) : as_version(record);
  }
  VB_TRY(cursor->status());
  return usage;
}

Result<Usage> count_parts(Moment& rows, uint64_t upload) {
  Usage usage{.uploads = 1};
  const auto cursor = rows.cursor(Table::uploads, keys::part_prefix(upload));
  for (; cursor->valid(); cursor->next()) {
    VB_ASSIGN(const StoredPart part, decode_part(cursor->value()));
    usage += as_parts(part.info.size);
  }
  VB_TRY(cursor->status());
  return usage;
}

}  // namespace

std::string encode(const Usage& usage) {
  Encoder e;
  for (const auto member : Usage::members()) e.varint(usage.*member);
  return e.take();
}

Result<Usage> decode_usage(std::string_view bytes) {
  Decoder d(bytes);
  Usage usage;
  for (const auto member : Usage::members()) usage.*member = d.varint();
  return finished(d, usage);
}

Result<Usage> count_bucket(Moment& rows, uint64_t bucket, const std::function<bool()>& goes_on) {
  VB_ASSIGN(Usage usage, count_heads(rows, Table::objects, keys::object_prefix(bucket), goes_on));
  VB_ASSIGN(const Usage versions, count_heads(rows, Table::versions, keys::version_bucket(bucket), goes_on));
  usage += versions;
  const auto uploads = rows.cursor(Table::uploads, keys::upload_prefix(bucket));
  for (; uploads->valid(); uploads->next()) {
    if (!goes_on()) return fail(Errc::cancelled, "usage");
    VB_ASSIGN(const UploadRecord upload, decode_upload(uploads->value()));
    VB_ASSIGN(const Usage parts, count_parts(rows, upload.id));
    usage += parts;
  }
  VB_TRY(uploads->status());
  return usage;
}

}  // namespace verbena::store
