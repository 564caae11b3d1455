// Rows of the store's logic and of the engine over Ceph, and what its servers tell each other: the first byte selects
// the decoder. What is accepted survives being encoded and decoded again; a key that is accepted is made by its maker.
#include <cstdlib>

#include "auth/session_token.h"
#include "store/logic/keys.h"
#include "store/logic/record.h"
#include "store/logic/usage.h"
#include "store/logic/versions.h"
#include "store/rados/cluster/layout.h"
#include "store/rados/members/intents.h"
#include "store/rados/rows/registry.h"

namespace {

using namespace verbena::store;

void expect(bool holds) {
  if (!holds) std::abort();
}

template <class Decode>
void round_trip(std::string_view bytes, Decode decode) {
  auto record = decode(bytes);
  if (!record) return;
  const std::string again = encode(*record);
  auto second = decode(again);
  expect(second && encode(*second) == again);
}

void rows_of_logic(std::string_view bytes) {
  round_trip(bytes, decode_usage);
  if (const auto object = decode_object(bytes)) {
    const std::string again = encode(*object);
    const auto second = decode_object(again);
    expect(second && second->id == object->id && second->info.size == object->info.size &&
           second->info.etag == object->info.etag && second->part_count == object->part_count &&
           second->info.version_id == object->info.version_id);
    (void)decode_parts_of(*object, bytes);
  }
}

void keys_of_logic(std::string_view bytes) {
  if (const auto found = keys::parse_document(bytes)) expect(keys::document(found->first, found->second) == bytes);
  if (const auto found = keys::parse_event(bytes)) {
    const auto queue = keys::event_queue(bytes);
    expect(queue && keys::event(*queue, found->first, found->second) == bytes);
  }
  if (const auto found = keys::parse_upload(bytes)) {
    expect(keys::upload(keys::read_number(bytes.substr(1, 8)), found->first, found->second) == bytes);
  }
  if (const auto found = keys::parse_version(bytes)) {
    expect(keys::version(keys::read_number(bytes.substr(0, 8)), found->first, found->second) == bytes);
  }
  (void)keys::parse_rename_age(bytes);
  if (const auto found = keys::parse_number(bytes)) expect(keys::number(*found) == bytes);
  if (const auto above = keys::after_prefix(bytes)) expect(*above > bytes && !above->starts_with(bytes));
  (void)keys::is_part(bytes);
  (void)keys::is_object_parts(bytes);
  (void)parse_version_id(bytes);
}

void rows_of_the_cluster(std::string_view bytes) {
  round_trip(bytes, rados::decode_version_token);
  round_trip(bytes, rados::decode_fence);
  if (const auto value = rados::decode_inline(bytes)) expect(rados::encode_inline(verbena::as_bytes(*value)) == bytes);
  if (const auto token = rados::decode_version_token(bytes)) {
    expect(token->leases.size() <= rados::VersionToken::leases_max);
  }
}

void names_of_the_cluster(std::string_view bytes) {
  if (const auto found = rados::parse_stripe(bytes)) expect(rados::stripe_object(found->first, found->second) == bytes);
  if (const auto found = rados::parse_tablet(bytes)) expect(rados::tablet_object(found->first, found->second) == bytes);
  if (const auto found = rados::parse_dead_row(bytes)) expect(rados::dead_row(*found) == bytes);
  if (const auto found = rados::parse_usage_row(bytes)) expect(rados::usage_row(*found) == bytes);
  if (const auto found = rados::parse_receipt_row(bytes)) expect(rados::receipt_row(*found) == bytes);
  if (const auto found = rados::parse_tombstone_row(bytes)) {
    expect(rados::tombstone_row(found->us, found->key) == bytes);
  }
}

void words_between_servers(std::string_view bytes) {
  round_trip(bytes, rados::decode_move);
  round_trip(bytes, rados::decode_intents);
  const auto notice = rados::decode_notice(bytes, 7);
  const auto again = rados::decode_notice(encode(notice), 7);
  expect(again.kind == notice.kind && again.bucket == notice.bucket && again.intent == notice.intent);
}

void sessions(std::string_view bytes) {
  const auto contents = verbena::auth::decode_session(bytes);
  if (contents) expect(verbena::auth::decode_session(verbena::auth::encode_session(*contents)) == contents);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr void (*readers[])(std::string_view) = {rows_of_logic,        keys_of_logic,         rows_of_the_cluster,
                                                   names_of_the_cluster, words_between_servers, sessions};
  readers[data[0] % std::size(readers)](bytes);
  return 0;
}
