#include "rdma/token.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/hex.h"

namespace verbena::rdma {
namespace {

constexpr size_t fields_max = 12;         // cuObject has 7, and some versions append more
constexpr size_t provider_size_max = 64;  // characters
// Tokens that are neither ofi1 nor cuObject are declined like hipObject's, of which there are several forms: a client
// that gets a 400 has no fallback.
constexpr Dialect other_dialect = Dialect::hipobj;
constexpr uint64_t window_size_max = 64 * TiB;  // beyond any object; smaller bounds are the store's

struct Fields {
  std::array<std::string_view, fields_max> at;
  size_t count = 0;  // fields_max + 1: more than that
};

Fields split(std::string_view text) {
  Fields fields;
  for (;;) {
    const auto colon = text.find(':');
    if (fields.count == fields_max) {
      ++fields.count;
      return fields;
    }
    fields.at[fields.count++] = text.substr(0, colon);
    if (colon == std::string_view::npos) return fields;
    text.remove_prefix(colon + 1);
  }
}

// addr:size:rkey:lid:dctn:gid_present:gid, usually of fixed widths (81 characters), some without leading zeros, some
// with further fields.
bool is_cuobject(const Fields& fields) {
  constexpr std::array<size_t, 7> widths = {16, 16, 8, 4, 6, 2, 32};
  if (fields.count < widths.size() || fields.count > fields_max) return false;
  for (size_t i = 0; i < fields.count; ++i) {
    if (fields.at[i].size() > (i < widths.size() ? widths[i] : 32) || !is_hex(fields.at[i])) return false;
  }
  return true;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// "ofi1", "ofi10", "uet1".
bool is_family(std::string_view text) {
  if (!text.starts_with("ofi") && !text.starts_with("uet")) return false;
  text.remove_prefix(3);
  return !text.empty() && text.size() <= 4 && std::all_of(text.begin(), text.end(), is_digit);
}

// Provider names as fi_info prints them: "tcp", "verbs;ofi_rxm". Whether the provider exists is checked later.
bool is_provider(std::string_view text) {
  return !text.empty() && text.size() <= provider_size_max && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view("_-;.+").find(c) != std::string_view::npos;
  });
}

Result<Token> parse_ofi1(const Fields& fields) {
  const auto bad = [](const char* what) { return fail(Errc::invalid_rdma_token, what); };
  const auto base = parse_hex(fields.at[0]);
  const auto size = parse_hex(fields.at[1]);
  if (!base) return bad("token: base");
  if (!size || *size > window_size_max) return bad("token: size");
  if (*base + *size < *base) return bad("token: base + size overflows");
  if (!is_provider(fields.at[3])) return bad("token: provider");
  if (fields.at[4].size() > 2 * endpoint_name_size_max) return bad("token: endpoint name too long");
  const auto name = from_hex(fields.at[4]);
  if (!name || name->empty()) return bad("token: endpoint name");
  if (!is_hex(fields.at[5])) return bad("token: key");
  Token token;
  if (fields.at[5].size() > 16) {
    token.dialect = Dialect::ofi1_raw;
    return token;
  }
  token.provider = fields.at[3];
  token.endpoint_name = as_text(*name);
  token.base = *base;
  token.size = *size;
  token.key = *parse_hex(fields.at[5]);
  return token;
}

}  // namespace

Result<Token> parse_token(std::string_view text) {
  Token token;
  token.dialect = other_dialect;
  const Fields fields = split(text.substr(0, token_size_max));
  if (fields.count > 2 && is_family(fields.at[2])) {
    if (fields.at[2] == "ofi1") {
      if (text.size() > token_size_max) return fail(Errc::invalid_rdma_token, "token: length");
      if (fields.count != 6) return fail(Errc::invalid_rdma_token, "token: fields of ofi1");
      return parse_ofi1(fields);
    }
    return token;
  }
  if (text.size() > token_size_max) return token;
  if (text.ends_with(';')) text.remove_suffix(1);
  const Fields plain = split(text);
  if (is_cuobject(plain)) {
    token.dialect = Dialect::cuobject;
    token.size = *parse_hex(plain.at[1]);
  }
  return token;
}

std::string format_token(const Token& token) {
  std::string text;
  append_hex(text, token.base);
  text += ':';
  append_hex(text, token.size);
  text += ":ofi1:";
  text += token.provider;
  text += ':';
  text += to_hex(as_bytes(token.endpoint_name));
  text += ':';
  append_hex(text, token.key);
  return text;
}

std::string redacted(const Token& token) {
  switch (token.dialect) {
    case Dialect::cuobject:
      return "cuobject";
    case Dialect::hipobj:
      return "hipobj or unknown";
    case Dialect::ofi1_raw:
      return "ofi1 with a raw key";
    case Dialect::ofi1:
      break;
  }
  return "ofi1 provider=" + token.provider + " size=" + std::to_string(token.size);
}

}  // namespace verbena::rdma
