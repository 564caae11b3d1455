#include "store/rados/rows/key_ids.h"

#include <cerrno>
#include <map>
#include <utility>

#include "store/rados/cluster/layout.h"

namespace verbena::store::rados {

Task<Result<std::optional<std::string>>> read_keys_row(Registry& registry, std::string row) {
  VB_CO_ASSIGN(std::string text, co_await registry.row(std::string(servers_object), std::move(row)));
  if (text.empty()) co_return std::nullopt;
  co_return text;
}

// Guarded by the text that was read. A call that was sent twice fails although it was made; reading again finds the own
// text.
Task<Result<bool>> replace_keys_row(Registry& registry, std::string row, std::optional<std::string> before,
                                    std::string text) {
  librados::ObjectWriteOperation op;
  op.create(false);
  const std::map<std::string, std::pair<Buffer, int>> expected = {
      {row, {to_buffer(before.value_or("")), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(expected, nullptr);
  const std::map<std::string, Buffer> set = {{row, to_buffer(text)}};
  op.omap_set(set);
  const int code = co_await registry.cluster().write(Cluster::Pool::index, std::string(servers_object), std::move(op));
  if (code == -ECANCELED) co_return false;
  if (code < 0) co_return std::unexpected(to_error(code, "rados: master keys"));
  co_return true;
}

}  // namespace verbena::store::rados
