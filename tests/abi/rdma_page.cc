// The example that users of other RDMA stores know, but for the namespace: docs/client.md quotes it.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "verbena/rdma.h"

using verbena::RDMAContext;

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const char* host = argv[1];
  const int port = std::atoi(argv[2]);
  const char* bucket = argv[3];
  const size_t size = 1 << 20;

  RDMAContext ctx("mlx5_0", 1);
  ctx.connect(host, port);
  void* buffer = ctx.alloc_mr(size);
  std::memset(buffer, 'r', size);
  ctx.rdma_write(bucket, "my-object", buffer, size);
  std::memset(buffer, 0, size);
  ctx.rdma_read(bucket, "my-object", buffer, size);
  const bool same = static_cast<char*>(buffer)[0] == 'r' && static_cast<char*>(buffer)[size - 1] == 'r';
  std::printf("%zu bytes by native (%s)\n", size, ctx.provider().c_str());
  ctx.free_mr(buffer);

  // Failures are exceptions, with S3's name for them.
  try {
    char small[16];
    ctx.rdma_read(bucket, "nothing", small, sizeof small);
    return 1;
  } catch (const verbena::RDMAError& error) {
    if (error.s3_code() != "NoSuchKey") return 1;
  }
  return same ? 0 : 1;
}
