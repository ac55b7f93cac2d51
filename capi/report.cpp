// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "headrace/capi/internal/loader.h"

namespace headrace::capi {
namespace {

using nlohmann::json;

json tiers_json(const Dataset& dataset) {
  json tiers = json::array();
  for (const cache::TierStats& tier : dataset.store->stats().tiers) {
    tiers.push_back({{"kind", cache::name_of(tier.kind)},
                     {"path", tier.path},
                     {"budget_bytes", tier.budget_bytes},
                     {"used_bytes", tier.used_bytes},
                     {"samples", tier.samples},
                     {"hits", tier.hits},
                     {"hit_bytes", tier.hit_bytes},
                     {"errors", tier.errors},
                     {"state", tier.state}});
  }
  return tiers;
}

// Of parts of JPEGs: how many were decoded with an index, and why others were not.
json crops_json(const decode::CropReport& report) {
  json crops = {{"files", report.files}, {"bytes", report.bytes}, {"folder_bytes", report.folder_bytes}};
  for (std::size_t i = 0; i < decode::kCropWays; ++i) {
    crops[std::string(decode::name_of(static_cast<decode::CropWay>(i)))] = report.crops[i];
  }
  return crops;
}

}  // namespace

std::string report_text(const Batches& batches, const Dataset& dataset) {
  const decode::StageReport report = batches.report();
  const json all = {{"elapsed_seconds", report.elapsed_seconds},
                    {"threads", report.threads},
                    {"samples", report.samples},
                    {"bad_samples", report.bad_samples},
                    {"encoded_bytes", report.encoded_bytes},
                    {"source_fraction", report.source_fraction},
                    {"read_seconds", report.read_seconds},
                    {"held_back_seconds", report.held_back_seconds},
                    {"decode_seconds", report.decode_seconds},
                    {"transform_seconds", report.transform_seconds},
                    {"idle_seconds", report.idle_seconds},
                    {"deliver_seconds", report.deliver_seconds},
                    {"consume_seconds", report.consume_seconds},
                    {"bottleneck", decode::name_of(decode::bottleneck_of(report))},
                    {"crops", crops_json(report.crops)},
                    {"text", decode::format(report)},
                    {"copied_batches", batches.copied()},
                    {"engine", dataset.store->stats().engine.name},
                    {"through_mount", dataset.is_mount},
                    {"tiers", tiers_json(dataset)}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace headrace::capi
