#ifndef C_STRESS_H
#define C_STRESS_H

/// Makes `membarrier(2)` fail with `EPERM` in all threads of the process from now on, as a sandbox does that is entered
/// late. Returns 0, or an error number; `ENOSYS` where there is no such call.
int stress_deny_membarrier(void);

#endif
