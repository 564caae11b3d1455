// The configured sizes reach the device: libfabric's calls of libibverbs are intercepted, carried out, and then read
// back from the queue pair, the shared receive queue and the completion queue. Runs on a real device.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <mutex>

#include "fabric/ofi/testing.h"

namespace verbena::fabric::ofi {
namespace {

struct Seen {
  std::mutex mutex;
  std::vector<ibv_qp_cap> queue_pairs_asked, queue_pairs;  // the latter as ibv_query_qp reads them
  std::vector<ibv_srq_attr> receive_queues;                // as ibv_query_srq reads them
  std::vector<int> completions_asked, completions_made;
};
Seen& seen() {
  static Seen all;
  return all;
}

template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace verbena::fabric::ofi

// These override the library's functions, because the program exports them.
extern "C" int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr) {
  using namespace verbena::fabric::ofi;
  const ibv_qp_cap asked = attr->cap;
  const int result = real<decltype(rdma_create_qp)>("rdma_create_qp")(id, pd, attr);
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  if (result == 0 && ibv_query_qp(id->qp, &now, IBV_QP_CAP, &made) == 0) {
    const std::lock_guard lock(seen().mutex);
    seen().queue_pairs_asked.push_back(asked);
    seen().queue_pairs.push_back(now.cap);
  }
  return result;
}

extern "C" ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  using namespace verbena::fabric::ofi;
  ibv_srq* queue = real<decltype(ibv_create_srq)>("ibv_create_srq")(pd, attr);
  ibv_srq_attr now{};
  if (queue != nullptr && ibv_query_srq(queue, &now) == 0) {
    const std::lock_guard lock(seen().mutex);
    seen().receive_queues.push_back(now);
  }
  return queue;
}

#undef ibv_create_cq
extern "C" ibv_cq* ibv_create_cq(ibv_context* context, int size, void* user, ibv_comp_channel* channel, int vector) {
  using namespace verbena::fabric::ofi;
  ibv_cq* queue = real<decltype(ibv_create_cq)>("ibv_create_cq")(context, size, user, channel, vector);
  const std::lock_guard lock(seen().mutex);
  // Small ones are libfabric's, to probe the device.
  if (queue != nullptr && size > 1) {
    seen().completions_asked.push_back(size);
    seen().completions_made.push_back(queue->cqe);
  }
  return queue;
}

namespace verbena::fabric::ofi {
namespace {

using testing::TestClient;
using testing::TestServer;

Task<Result<void>> write_once(Window* window, Bytes from) {
  co_return co_await window->write(from, 0, deadline_in(std::chrono::seconds(20)));
}

// One process has one set of these: libfabric reads its variables once.
TEST(Device, HasTheQueuesThatWereConfigured) {
  Options options = testing::test_options();
  options.max_send_wr = 77;
  options.max_recv_wr = 50;
  options.max_sge = 3;
  options.cq_size = 1000;
  TestServer server(options);
  ASSERT_TRUE(server.fabric) << describe(server.error);
  TestClient client(nullptr, options);
  std::vector<std::byte> memory(4096);
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  auto window = server.call(
      [&] { return server.fabric->open_window(client.link->address(), lent->descriptor(), Access::server_writes); });
  ASSERT_TRUE(window);
  const auto lease = server.lease(4096, std::byte{7});
  ASSERT_TRUE(server.spawn(write_once(window->get(), lease.bytes())).get());
  server.call([&] { window->reset(); });

  const std::lock_guard lock(seen().mutex);
  ASSERT_FALSE(seen().queue_pairs.empty());
  for (const auto& cap : seen().queue_pairs_asked) {
    EXPECT_EQ(cap.max_send_wr, 77u);
    EXPECT_EQ(cap.max_send_sge, 3u);
  }
  // A device may round up: soft-RoCE's queues have one less than a power of two, and entries for the space of inline
  // data.
  for (const auto& cap : seen().queue_pairs) {
    EXPECT_GE(cap.max_send_wr, 77u);
    EXPECT_LT(cap.max_send_wr, 128u);
    EXPECT_GE(cap.max_send_sge, 3u);
  }
  ASSERT_FALSE(seen().receive_queues.empty());
  for (const auto& queue : seen().receive_queues) {
    EXPECT_GE(queue.max_wr, 50u);
    EXPECT_LT(queue.max_wr, 64u);
  }
  ASSERT_FALSE(seen().completions_made.empty());
  for (size_t i = 0; i < seen().completions_made.size(); ++i) {
    EXPECT_EQ(seen().completions_asked[i], 50 + 77 * 12) << "as many as max_send_wr goes into cq_size";
    EXPECT_GE(seen().completions_made[i], seen().completions_asked[i]);
  }
}

}  // namespace
}  // namespace verbena::fabric::ofi
