#include "store/rados/cluster/layout.h"

#include <fmt/format.h>

#include <charconv>

#include "base/checksum.h"
#include "store/logic/keys.h"

namespace verbena::store::rados {
namespace {

std::string escaped(std::string_view key) { return keys::upload_key_prefix(0, key).substr(9); }

std::string of_key(char letter, std::string_view key) {
  return std::string(1, letter).append(escaped(key)).append(2, '\0');
}

std::optional<uint64_t> parse_hex(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Stored in the place of a lease holder. Older servers treat it as one that is gone.
constexpr uint64_t left_intent = UINT64_MAX;

// A letter, sixteen digits, and perhaps more numbers.
std::optional<std::pair<uint64_t, uint64_t>> parse_object(char letter, std::string_view object) {
  if (object.size() < 20 || object[0] != letter || object[1] != '.' || object[18] != '.') return std::nullopt;
  const auto first = parse_hex(object.substr(2, 16));
  const auto second = parse_hex(object.substr(19));
  if (!first || !second) return std::nullopt;
  return std::pair(*first, *second);
}

}  // namespace

std::string bucket_object(uint64_t bucket) { return fmt::format("b.{:016x}", bucket); }
std::string tablet_object(uint64_t bucket, uint64_t number) { return fmt::format("t.{:016x}.{:x}", bucket, number); }
std::string holder_object(uint64_t holder) { return fmt::format("k.{:016x}", holder); }
std::string holder_row(uint64_t holder) { return keys::tagged('k', holder); }
std::string stripe_object(uint64_t blob, uint64_t stripe) { return fmt::format("d.{:016x}.{:x}", blob, stripe); }

std::optional<std::pair<uint64_t, uint64_t>> parse_stripe(std::string_view object) { return parse_object('d', object); }
std::optional<std::pair<uint64_t, uint64_t>> parse_tablet(std::string_view object) { return parse_object('t', object); }

Family family(const Place& place, Table table, std::string_view key) {
  switch (table) {
    case Table::objects:
      return {keys::number(place.bucket), "o"};
    case Table::versions:
      return {keys::number(place.bucket), "v"};
    default:
      break;
  }
  // Rows in the key's tablet that belong to no key.
  if (key.starts_with('r') || key.starts_with('a')) {
    return {keys::tagged(key.front(), place.bucket), std::string(1, key.front())};
  }
  if (const auto end = keys::parse_end(key)) {
    const size_t before_key = key.size() - end->key.size();
    return {std::string(key.substr(0, before_key)), stored_end_row(end->end_us, "")};
  }
  // Parts have ids only: they are stored with their key.
  if (key.starts_with('u') || key.starts_with('n')) {
    return {keys::tagged(key.front(), place.bucket), std::string(1, key.front())};
  }
  return {"", of_key('x', place.key)};
}

std::string version_token_row(std::string_view key) { return of_key('g', key); }
std::string versions_prefix(std::string_view key) { return of_key('v', key); }
std::string inline_prefix(std::string_view key) { return of_key('i', key); }
std::string inline_row(std::string_view key, uint64_t blob) { return of_key('i', key) + keys::number(~blob); }
std::string dead_row(uint64_t blob) { return keys::tagged('!', blob); }
std::optional<uint64_t> parse_dead_row(std::string_view row) {
  if (!row.starts_with('!')) return std::nullopt;
  return keys::parse_number(row.substr(1));
}

std::string usage_row(uint64_t incarnation) { return keys::tagged('$', incarnation); }
std::optional<uint64_t> parse_usage_row(std::string_view row) {
  if (!row.starts_with('$')) return std::nullopt;
  return keys::parse_number(row.substr(1));
}

std::string joined_usage_row(uint64_t incarnation, uint64_t tablet) {
  return "$j" + keys::number(incarnation) + keys::number(tablet);
}
std::optional<JoinedUsage> parse_joined_usage_row(std::string_view row) {
  if (!row.starts_with("$j") || row.size() != 18) return std::nullopt;
  return JoinedUsage{keys::read_number(row.substr(2, 8)), keys::read_number(row.substr(10))};
}

std::string joined_row(uint64_t tablet) { return keys::tagged('g', tablet); }
std::optional<uint64_t> parse_joined_row(std::string_view row) {
  if (!row.starts_with('g') || row.size() != 9) return std::nullopt;
  return keys::read_number(row.substr(1));
}

std::string receipt_row(uint64_t incarnation) { return keys::tagged('w', incarnation); }
std::optional<uint64_t> parse_receipt_row(std::string_view row) {
  if (!row.starts_with('w')) return std::nullopt;
  return keys::parse_number(row.substr(1));
}

std::string tombstone_row(int64_t us, std::string_view key) {
  return keys::tagged('z', static_cast<uint64_t>(us)).append(key);
}
std::optional<Tombstone> parse_tombstone_row(std::string_view row) {
  if (!row.starts_with('z') || row.size() < 9) return std::nullopt;
  return Tombstone{static_cast<int64_t>(keys::read_number(row.substr(1, 8))), std::string(row.substr(9))};
}

std::string stored_end_row(int64_t us, std::string_view key) {
  return keys::tagged(ends_prefix.front(), static_cast<uint64_t>(us)).append(key);
}
std::optional<StoredEnd> parse_stored_end_row(std::string_view row) {
  if (!row.starts_with(ends_prefix) || row.size() < 9) return std::nullopt;
  return StoredEnd{static_cast<int64_t>(keys::read_number(row.substr(1, 8))), std::string(row.substr(9))};
}

std::string first_row(char letter, std::string_view key) {
  return std::string(1, letter) + (letter == 'o' ? std::string(key) : escaped(key));
}

std::string encode(const VersionToken& version_token) {
  std::string bytes = keys::number(version_token.last_id) + keys::number(version_token.token);
  for (const ReadLease& lease : version_token.leases) bytes += keys::number(lease.holder) + keys::number(lease.nonce);
  if (version_token.left_us != 0)
    bytes += keys::number(left_intent) + keys::number(static_cast<uint64_t>(version_token.left_us));
  return bytes;
}

Result<VersionToken> decode_version_token(std::string_view bytes) {
  if (bytes.empty()) return VersionToken{};
  if (bytes.size() % 16 != 0 || bytes.size() > 16 * (1 + VersionToken::leases_max)) {
    return fail(Errc::corrupt_object, "rados: version token of a key");
  }
  const auto number = [bytes](size_t at) { return keys::read_number(bytes.substr(at, 8)); };
  VersionToken version_token{number(0), number(8)};
  for (size_t at = 16; at < bytes.size(); at += 16) {
    if (number(at) == left_intent) {
      version_token.left_us = static_cast<int64_t>(number(at + 8));
    } else {
      version_token.leases.push_back({number(at), number(at + 8)});
    }
  }
  return version_token;
}

std::string encode(const Fence& fence) { return keys::number(fence.number) + keys::number(fence.last_id); }

Result<Fence> decode_fence(std::string_view bytes) {
  if (bytes.empty()) return Fence{};
  if (bytes.size() != 16) return fail(Errc::corrupt_object, "rados: fence of a tablet");
  return Fence{keys::read_number(bytes.substr(0, 8)), keys::read_number(bytes.substr(8))};
}

std::string encode_inline(Bytes bytes) {
  std::string value;
  keys::append_number(value, crc32c(bytes), 4);
  return value.append(as_text(bytes));
}

Result<std::string> decode_inline(std::string_view value) {
  if (value.size() < 4) return fail(Errc::corrupt_object, "rados: small object");
  const std::string_view bytes = value.substr(4);
  if (crc32c(as_bytes(bytes)) != keys::read_number(value.substr(0, 4))) {
    return fail(Errc::corrupt_object, "rados: checksum of a small object");
  }
  return std::string(bytes);
}

}  // namespace verbena::store::rados
