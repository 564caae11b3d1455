// Metrics that were renamed since the last release. Each is exposed under its old name, too, with the same values, for
// one release; docs/operations.md lists them.
#pragma once

#include <array>
#include <string_view>

namespace verbena::metrics {

struct RenamedMetric {
  std::string_view old_name, name;
};

inline constexpr std::array renamed_metrics = {
    RenamedMetric{"verbena_rados_guards_swept_total", "verbena_rados_version_tokens_swept_total"},
    RenamedMetric{"verbena_rados_keepers_ended_total", "verbena_rados_lease_holders_ended_total"},
    RenamedMetric{"verbena_rados_keepers_told_total", "verbena_rados_lease_recalls_total"},
    RenamedMetric{"verbena_rados_keeping", "verbena_rados_lease_holder"},
    RenamedMetric{"verbena_rados_keeps_total", "verbena_rados_read_leases_total"},
    RenamedMetric{"verbena_rados_let_go_total", "verbena_rados_leases_dropped_total"},
    RenamedMetric{"verbena_rados_marked_total", "verbena_rados_in_flight_reads_total"},
    RenamedMetric{"verbena_rados_on_duty", "verbena_rados_leader"},
};

}  // namespace verbena::metrics
