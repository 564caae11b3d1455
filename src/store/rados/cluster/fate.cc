#include "store/rados/cluster/fate.h"

#include <cerrno>
#include <map>
#include <memory>

#include "base/metrics.h"
#include "store/logic/keys.h"
#include "store/rados/cluster/attribute.h"

namespace verbena::store::rados {
namespace {

constexpr size_t token_size = 8;

bool has_token(std::string_view list, std::string_view token) {
  for (size_t at = 0; at + token_size <= list.size(); at += token_size) {
    if (list.substr(at, token_size) == token) return true;
  }
  return false;
}

}  // namespace

std::string with_token(std::string_view list, uint64_t token) {
  return keys::number(token).append(list.substr(0, token_size * (tokens_max - 1)));
}

Fate fate_of(std::string_view list, uint64_t token, std::string_view seen, size_t list_max) {
  static auto& twice = metrics::counter("verbena_rados_calls_made_twice_total",
                                        "Calls that failed because they had been made before their answer was lost");
  if (has_token(list, keys::number(token))) {
    twice.add();
    return Fate::made;
  }
  // Newer tokens are in front of the one that was the newest then.
  if (list == seen || (!seen.empty() && has_token(list, seen.substr(0, token_size)))) return Fate::not_made;
  return seen.empty() && list.size() < token_size * list_max ? Fate::not_made : Fate::unknown;
}

Task<Fate> fate_by_row(Cluster& cluster, std::string object, std::string row, uint64_t token, std::string seen) {
  struct Reply {
    std::map<std::string, Buffer> rows;
    int code = 0;
  };
  auto reply = std::make_shared<Reply>();
  librados::ObjectReadOperation op;
  op.omap_get_vals_by_keys({row}, &reply->rows, &reply->code);
  const int code = co_await cluster.read(Cluster::Pool::index, std::move(object), std::move(op), reply);
  if (code < 0) co_return Fate::unknown;
  const auto found = reply->rows.find(row);
  co_return fate_of(found == reply->rows.end() ? std::string() : to_text(found->second), token, seen);
}

Task<Fate> fate_by_attribute(Cluster& cluster, std::string object, std::string name, uint64_t token, std::string seen) {
  const auto list =
      co_await read_attribute(cluster, Cluster::Pool::index, std::move(object), std::move(name), "rados: tokens");
  if (!list) co_return Fate::unknown;
  co_return fate_of(*list, token, seen);
}

}  // namespace verbena::store::rados
