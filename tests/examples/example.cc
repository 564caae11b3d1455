// The C++ client library in one page. docs/client.md quotes this file; tests run it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "verbena/client.h"

static int failed(const char* what, const verbena::ClientError& error) {
  std::fprintf(stderr, "%s: %s\n", what, error.message.c_str());
  return 1;
}

static std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int main() {
  verbena::ClientOptions options;
  options.endpoint = environment("AWS_ENDPOINT_URL");       // http://127.0.0.1:9000
  options.native_endpoint = environment("VERBENA_NATIVE");  // 127.0.0.1:9100
  options.access_key = environment("AWS_ACCESS_KEY_ID");
  options.secret_key = environment("AWS_SECRET_ACCESS_KEY");
  auto client = verbena::Client::connect(options);
  if (!client) return failed("connect", client.error());

  if (auto made = client->make_bucket("example"); !made && made.error().code != verbena::ErrorCode::bucket_exists) {
    return failed("make_bucket", made.error());
  }

  // Registered memory: the server moves the bytes straight into and out of it.
  auto buffer = client->allocate(1 << 20);
  if (!buffer) return failed("allocate", buffer.error());
  std::memset(buffer->data(), 'v', buffer->size());
  auto put = client->put("example", "greeting", *buffer);
  if (!put) return failed("put", put.error());

  auto got = client->get("example", "greeting", *buffer);
  if (!got) return failed("get", got.error());
  std::printf("%llu bytes by %s (%s)\n", static_cast<unsigned long long>(got->bytes),
              std::string(to_string(got->transfer.door)).c_str(), got->transfer.provider.c_str());

  // Several at once.
  auto first = client->get_async("example", "greeting", buffer->slice(0, 4096), {.range = verbena::Range{0, 4096}});
  auto second =
      client->get_async("example", "greeting", buffer->slice(4096, 4096), {.range = verbena::Range{8192, 4096}});
  if (!first.get() || !second.get()) return 1;

  auto listed = client->for_each("example", "", [](const verbena::ObjectInfo& object) {
    std::printf("%s %llu\n", object.key.c_str(), static_cast<unsigned long long>(object.size));
    return true;
  });
  if (!listed) return failed("list", listed.error());
  if (auto removed = client->remove("example", "greeting"); !removed) return failed("remove", removed.error());
  if (auto removed = client->remove_bucket("example"); !removed) return failed("remove_bucket", removed.error());
  return 0;
}
