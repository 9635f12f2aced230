// A histogram that is read before it is there.
// Says: bins.cuh:42: the host's code reads memory that a copy
#include "bins.cuh"

int main() {
  return run(true, false);
}
