// Batches by the C API.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "server/test_server.h"
#include "verbena/verbena.h"

namespace verbena {
namespace {

std::string header_of(const verbena_info* info, const std::string& name) {
  verbena_pair pair{};
  for (size_t i = 0; i < verbena_info_header_count(info); ++i) {
    if (verbena_info_header(info, i, &pair) == 0 && pair.name == name) return pair.value;
  }
  return "none";
}

TEST(CBatches, AreStoredReadAndRemovedAndOlderCallersAreUnderstood) {
  server::TestServer server;
  const std::string http = server.http(), native = server.native();
  verbena_options options{};
  options.struct_size = sizeof options;
  options.endpoint = http.c_str();
  options.native_endpoint = native.c_str();
  options.access_key = server::TestServer::access_key;
  options.secret_key = server::TestServer::secret_key;
  verbena_client* client = nullptr;
  ASSERT_EQ(verbena_connect(&options, &client), 0) << verbena_last_error();
  ASSERT_EQ(verbena_make_bucket(client, "many", nullptr), 0);
  verbena_buffer* buffer = nullptr;
  ASSERT_EQ(verbena_buffer_alloc(client, 4000, &buffer), 0);
  auto* const memory = static_cast<char*>(verbena_buffer_data(buffer));
  for (int i = 0; i < 4000; ++i) memory[i] = static_cast<char>(i * 7);
  const std::string before(memory, 4000);

  std::vector<std::string> keys;
  for (int i = 0; i < 4; ++i) keys.push_back("key " + std::to_string(i));
  std::vector<verbena_item> items(4);
  std::vector<verbena_item_result> results(4);
  for (size_t i = 0; i < 4; ++i) {
    items[i].struct_size = sizeof(verbena_item);
    items[i].bucket = "many";
    items[i].key = keys[i].c_str();
    items[i].offset = i * 1000;
    items[i].size = 1000;
  }
  verbena_batch batch{};
  batch.struct_size = sizeof batch;
  batch.items = items.data();
  batch.count = 4;
  batch.windows = &buffer;
  batch.window_count = 1;
  batch.results = results.data();
  batch.result_size = sizeof(verbena_item_result);
  verbena_transfer transfer{};
  transfer.struct_size = sizeof transfer;
  ASSERT_EQ(verbena_put_many(client, &batch, &transfer), 0) << verbena_last_error();
  EXPECT_STREQ(transfer.door, "native");
  for (const auto& result : results) EXPECT_EQ(result.code, 0);

  std::memset(memory, 0, 4000);
  items[3].key = "absent";
  size_t leading = 0;
  batch.context = &leading;
  batch.in_order = [](void* context, size_t n) { *static_cast<size_t*>(context) = n; };
  ASSERT_EQ(verbena_get_many(client, &batch, &transfer), 0) << verbena_last_error();
  EXPECT_EQ(leading, 4u);
  EXPECT_EQ(std::string(memory, 3000), before.substr(0, 3000));
  EXPECT_EQ(results[0].size, 1000u);
  EXPECT_EQ(results[3].code, VERBENA_NO_SUCH_KEY);
  EXPECT_NE(std::string(results[1].etag), "");

  // A caller built before conditions existed: its items end there, and the bytes after them are not our pointers.
  struct Older {
    size_t struct_size;
    const char *bucket, *key;
    size_t window, offset, size;
  };
  const Older older[2] = {{sizeof(Older), "many", keys[0].c_str(), 0, 0, 0},
                          {sizeof(Older), "many", "absent", 0, 0, 0}};
  batch.items = reinterpret_cast<const verbena_item*>(older);
  batch.count = 2;
  batch.window_count = 0;
  ASSERT_EQ(verbena_head_many(client, &batch, nullptr), 0) << verbena_last_error();
  EXPECT_EQ(results[0].size, 1000u);
  EXPECT_EQ(results[1].code, VERBENA_NO_SUCH_KEY);
  ASSERT_EQ(verbena_delete_many(client, &batch, nullptr), 0) << verbena_last_error();
  EXPECT_EQ(verbena_head(client, "many", keys[0].c_str(), nullptr, nullptr), VERBENA_NO_SUCH_KEY);

  verbena_lease lease{};
  lease.struct_size = sizeof lease;
  lease.ms = 60'000;
  batch.take = &lease;
  batch.items = items.data();
  batch.count = 3;
  batch.windows = &buffer;
  ASSERT_EQ(verbena_head_many(client, &batch, nullptr), 0) << verbena_last_error();
  EXPECT_EQ(results[0].code, VERBENA_NO_SUCH_KEY);
  EXPECT_EQ(results[1].code, 0);
  EXPECT_NE(lease.lease, 0u);
  batch.take = nullptr;
  ASSERT_EQ(verbena_delete_many(client, &batch, nullptr), 0);
  batch.window_count = 1;
  batch.in_order = nullptr;
  ASSERT_EQ(verbena_get_many_leased(client, &batch, lease.lease, nullptr), 0);
  EXPECT_EQ(results[0].code, VERBENA_NO_SUCH_KEY);
  EXPECT_EQ(results[1].code, 0);
  EXPECT_EQ(results[2].code, 0);
  ASSERT_EQ(verbena_end_lease(client, lease.lease), 0);
  ASSERT_EQ(verbena_get_many_leased(client, &batch, lease.lease, nullptr), 0);
  EXPECT_EQ(results[1].code, VERBENA_NO_SUCH_KEY);
  lease.ms = 0;
  batch.take = &lease;
  EXPECT_EQ(verbena_get_many(client, &batch, nullptr), VERBENA_INVALID_ARGUMENT);
  batch.take = nullptr;

  items.resize(1);
  items[0].ttl_s = 3600;
  batch.items = items.data();
  batch.count = batch.window_count = 1;
  batch.in_order = nullptr;
  ASSERT_EQ(verbena_put_many(client, &batch, nullptr), 0) << verbena_last_error();
  EXPECT_EQ(results[0].code, 0);
  verbena_info* info = nullptr;
  verbena_head_options described{};
  described.struct_size = sizeof described;
  described.info = &info;
  ASSERT_EQ(verbena_head(client, "many", keys[0].c_str(), &described, nullptr), 0);
  EXPECT_EQ(header_of(info, "x-verbena-ttl"), "3600");
  verbena_info_free(info);
  items[0].ttl_s = UINT64_MAX;
  EXPECT_EQ(verbena_put_many(client, &batch, nullptr), VERBENA_INVALID_ARGUMENT);

  batch.struct_size = 0;
  EXPECT_EQ(verbena_head_many(client, &batch, nullptr), VERBENA_INVALID_ARGUMENT);
  batch.struct_size = sizeof batch;
  batch.count = 0;
  EXPECT_EQ(verbena_head_many(client, &batch, nullptr), VERBENA_INVALID_ARGUMENT);
  verbena_buffer_free(buffer);
  verbena_close(client);
}

}  // namespace
}  // namespace verbena
