// The C++ client's calls, one after the other on one thread: the reference for other languages in bench/clients.py.
// usage: client_calls get|many BUCKET KEY SIZE SECONDS
// `many` reads KEY0 ... KEY63 in one call. Prints a JSON line: the median call and the bytes per second.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "verbena/client.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t batch = 64;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

[[noreturn]] void fail(const verbena::ClientError& error) {
  std::fprintf(stderr, "client_calls: %s\n", error.message.c_str());
  std::exit(1);
}

template <class Call>
int measure(double seconds, size_t bytes, const Call& call) {
  std::vector<double> took_us;
  for (int i = 0; i < 20; ++i) call();
  const auto began = Clock::now();
  auto last = began;
  while (std::chrono::duration<double>(last - began).count() < seconds) {
    const auto before = Clock::now();
    call();
    last = Clock::now();
    took_us.push_back(std::chrono::duration<double, std::micro>(last - before).count());
  }
  std::ranges::sort(took_us);
  const double elapsed = std::chrono::duration<double>(last - began).count();
  std::printf("{\"p50_us\": %.3f, \"bytes_per_s\": %.0f, \"calls\": %zu}\n", took_us[took_us.size() / 2],
              static_cast<double>(bytes * took_us.size()) / elapsed, took_us.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const std::string what = argv[1], bucket = argv[2], key = argv[3];
  const size_t size = std::strtoull(argv[4], nullptr, 10);
  const double seconds = std::strtod(argv[5], nullptr);
  verbena::ClientOptions options;
  options.endpoint = environment("AWS_ENDPOINT_URL");
  options.native_endpoint = environment("VERBENA_NATIVE");
  options.access_key = environment("AWS_ACCESS_KEY_ID");
  options.secret_key = environment("AWS_SECRET_ACCESS_KEY");
  options.via = verbena::Via::native;
  options.provider = "local";
  const auto client = verbena::Client::connect(options);
  if (!client) fail(client.error());
  const auto buffer = client->allocate(what == "many" ? size * batch : size);
  if (!buffer) fail(buffer.error());
  if (what == "get") {
    return measure(seconds, size, [&] {
      if (const auto got = client->get(bucket, key, *buffer); !got) fail(got.error());
    });
  }
  std::vector<std::string> keys;
  for (size_t i = 0; i < batch; ++i) keys.push_back(key + std::to_string(i));
  std::vector<verbena::BatchItem> items;
  for (size_t i = 0; i < batch; ++i)
    items.push_back({.bucket = bucket, .key = keys[i], .offset = i * size, .size = size});
  std::vector<verbena::BatchResult> results(batch);
  return measure(seconds, size * batch, [&] {
    if (const auto got = client->get_many(items, std::span(&*buffer, 1), results); !got) fail(got.error());
  });
}
