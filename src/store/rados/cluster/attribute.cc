#include "store/rados/cluster/attribute.h"

#include <cerrno>
#include <map>
#include <memory>

namespace verbena::store::rados {

Task<Result<std::string>> read_attribute(Cluster& cluster, Cluster::Pool pool, std::string object, std::string name,
                                         const char* what) {
  struct Reply {
    std::map<std::string, Buffer> attributes;
    int code = 0;
  };
  auto reply = std::make_shared<Reply>();
  librados::ObjectReadOperation op;
  op.getxattrs(&reply->attributes, &reply->code);
  const int code = co_await cluster.read(pool, std::move(object), std::move(op), reply);
  if (code == -ENOENT) co_return fail(Errc::not_found, what);
  if (code < 0) co_return std::unexpected(to_error(code, what));
  const auto found = reply->attributes.find(name);
  co_return found == reply->attributes.end() ? std::string() : to_text(found->second);
}

}  // namespace verbena::store::rados
