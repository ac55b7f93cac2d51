// SPDX-License-Identifier: Apache-2.0
// An order over some samples of a data set, told in the data set's indices.
//
//   MappedOrder order("torch-subset:list=...,of=...", indices, std::move(over_these));
//
// Thread-safety: immutable.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::cache {

using Indices = std::shared_ptr<const std::vector<SampleIndex>>;

class MappedOrder final : public Order {
 public:
  // `inner`: over as many samples as there are indices.
  MappedOrder(std::string spec, Indices indices, std::shared_ptr<const Order> inner)
      : spec_(std::move(spec)), indices_(std::move(indices)), inner_(std::move(inner)) {}

  [[nodiscard]] const std::string& spec() const override { return spec_; }
  [[nodiscard]] std::uint64_t length(std::uint64_t epoch) const override { return inner_->length(epoch); }
  [[nodiscard]] Result<std::vector<SampleIndex>> epoch(std::uint64_t epoch) const override {
    return mapped(inner_->epoch(epoch));
  }
  [[nodiscard]] Result<std::vector<SampleIndex>> prefix(std::uint64_t epoch, std::uint64_t count) const override {
    return mapped(inner_->prefix(epoch, count));
  }
  [[nodiscard]] WorkerLayout workers() const override { return inner_->workers(); }

 private:
  [[nodiscard]] Result<std::vector<SampleIndex>> mapped(Result<std::vector<SampleIndex>> order) const {
    if (order) {
      for (SampleIndex& sample : *order) sample = (*indices_)[sample];
    }
    return order;
  }

  const std::string spec_;
  const Indices indices_;
  const std::shared_ptr<const Order> inner_;
};

}  // namespace headrace::cache
