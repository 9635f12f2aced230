#pragma once
/// \file
/// The addresses of the device's memory. They are nobody else's, and none is given twice: a pointer
/// to the host's memory is no index that went astray, and one to what was freed leads nowhere.

#include <cstddef>
#include <string_view>

namespace rmsnorm::cpu_device {

/// Addresses of so many bytes, where no memory is yet, at a multiple of 4096; null if there are
/// none.
char* take_addresses(std::size_t bytes);

/// Memory that is NaN in every type, at a multiple of 4096 bytes; null if there is none.
char* take_device_memory(std::size_t bytes);

/// The same for any bytes, which are repeated: a pattern of a multiple of 4096 bytes. They take no
/// memory until they are written to.
char* take_repeated_memory(std::size_t bytes, std::string_view pattern);

/// Sets bytes of such memory to a value, of whole pages likewise. False if the system cannot.
bool set_repeated_memory(char* data, std::size_t bytes, int value);

/// Ends its use.
void give_back_device_memory(char* data, std::size_t bytes);

/// Whether the device's memory is, was or will be there.
bool is_device_address(const void* address);

}  // namespace rmsnorm::cpu_device
