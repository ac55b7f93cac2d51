// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/order_words.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace order_words_test {

using namespace headrace::cli;
using nlohmann::json;

namespace {

bool names(const std::string& text, const char* words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a search through all seeds says how far it is and how long it takes at most") {
  CHECK(describe_search(json::object()).empty());
  CHECK(describe_search({{"order_search_seeds", 0}, {"order_search_seeds_tested", 7}}).empty());
  json mount = {{"order_search_seeds", 26'000'000'000}, {"order_search_seeds_tested", 1'000'000'000}};
  CHECK(describe_search(mount) == "searching all seeds: 1.00G of 26.0G tested");  // it has only begun
  mount["order_search_seeds_per_second"] = 50e6;
  CHECK(describe_search(mount) == "searching all seeds: 1.00G of 26.0G tested, 50.0M a second, at most 8:20 left");
}

TEST_CASE("many opens that were not expected name the order that they contradict") {
  json mount = {{"opens", 1000}, {"strays", 700}, {"order", "torch-distributed:seed=7"}, {"order_found_by", ""}};
  CHECK(names(describe_wrong_order(mount), "700 of 1000 opens"));
  CHECK(names(describe_wrong_order(mount), "torch-distributed:seed=7"));
  CHECK(names(describe_wrong_order(mount), "headrace order set tells another"));
  mount["order_found_by"] = "small seed";
  CHECK(names(describe_wrong_order(mount), "it was learned"));
  mount["orders_given_up"] = 1;  // which is told by itself
  CHECK(describe_wrong_order(mount).empty());
}

TEST_CASE("a pause of reading ahead says how long it lasts and which order was of no use") {
  CHECK(describe_pause({{"read_ahead_paused_opens", 0}, {"order", "sequential"}}).empty());
  json mount = {{"read_ahead_paused_opens", 1200}, {"order", "sequential"}};
  CHECK(names(describe_pause(mount), "nothing is read ahead for 1200 more opens"));
  CHECK(names(describe_pause(mount), "not all that sequential says is read"));
  mount["order"] = "";
  CHECK(names(describe_pause(mount), "nobody knows what is read next"));
}

TEST_CASE("a few opens that were not expected are no wrong order") {
  json mount = {{"opens", 1000}, {"strays", 90}, {"order", "sequential"}};
  CHECK(describe_wrong_order(mount).empty());
  mount["opens"] = 60;
  mount["strays"] = 60;
  CHECK(describe_wrong_order(mount).empty());
  mount = {{"opens", 1000}, {"strays", 900}, {"order", ""}};
  CHECK(describe_wrong_order(mount).empty());
}

}  // namespace order_words_test
