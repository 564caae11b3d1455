// Asynchronous calls of the C API.
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "net/testing/scripted_server.h"
#include "verbena/verbena.h"

namespace verbena {
namespace {

// A call of several ranges held a reference to the client: the close returned, and its bytes came later.
TEST(CQueue, ACloseWaitsForCallsOfSeveralRanges) {
  net::ScriptedServer server([](const net::ScriptedRequest& request, int) {
    if (!request.has("range: ")) return net::http_reply(200, "", "");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const std::string range = request.has("range: bytes=0-3") ? "0-3" : "4-7";
    return net::http_reply(206, "etag: \"e\"\r\ncontent-range: bytes " + range + "/8\r\n", "four");
  });
  const std::string url = server.url();
  verbena_options options{};
  options.struct_size = sizeof options;
  options.endpoint = url.c_str();
  options.access_key = "AKROOT";
  options.secret_key = "secret/root";
  options.via = "http";
  verbena_client* client = nullptr;
  ASSERT_EQ(verbena_connect(&options, &client), 0) << verbena_last_error();
  verbena_queue* queue = nullptr;
  ASSERT_EQ(verbena_queue_new(&queue), 0);
  std::array<char, 8> memory{};
  verbena_buffer* buffer = nullptr;
  verbena_memory own{};
  own.struct_size = sizeof own;
  own.address = memory.data();
  own.size = memory.size();
  ASSERT_EQ(verbena_buffer_register(client, &own, &buffer), 0) << verbena_last_error();
  const verbena_range ranges[] = {{0, 4}, {4, 4}};
  verbena_get_options get{};
  get.struct_size = sizeof get;
  get.ranges = ranges;
  get.range_count = 2;
  ASSERT_EQ(verbena_start_get(client, queue, "b", "k", buffer, 0, memory.size(), &get, nullptr, nullptr), 0);
  verbena_close(client);
  verbena_operation* done = nullptr;
  ASSERT_EQ(verbena_queue_next(queue, 0, &done), 0);
  ASSERT_NE(done, nullptr) << "it goes on after the close";
  uint64_t bytes = 0;
  EXPECT_EQ(verbena_operation_result(done, &bytes, nullptr, nullptr), 0) << verbena_last_error();
  EXPECT_EQ(bytes, 8u);
  EXPECT_EQ(std::string(memory.data(), memory.size()), "fourfour");
  verbena_operation_free(done);
  verbena_buffer_free(buffer);
  verbena_queue_free(queue);
}

}  // namespace
}  // namespace verbena
