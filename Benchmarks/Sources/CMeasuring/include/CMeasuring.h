#pragma once

/// Lets malloc keep what is freed instead of giving it back to the system.
void measuring_keep_freed_memory(void);
