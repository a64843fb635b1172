/*
 * Preloaded into User-Mode Linux on processors with AMX.
 *
 * Linux accepts a process's floating-point registers only in a buffer of the processor's whole size, 11 kB with AMX. User-Mode Linux before
 * 6.13 hands over the 2.7 kB it knows, and its first process dies: "ptrace set fp regs failed, errno = 14". Here the registers it knows
 * replace the beginning of what the process has, and all of that is handed over.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NT_X86_XSTATE 0x202

static char whole[1 << 16] __attribute__((aligned(64)));

static long kernel(long request, long pid, void *addr, void *data)
{
	return syscall(SYS_ptrace, request, pid, addr, data);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list list;
	va_start(list, request);
	long pid = va_arg(list, pid_t);
	void *addr = va_arg(list, void *);
	void *data = va_arg(list, void *);
	va_end(list);

	if (request == PTRACE_SETREGSET && (long)addr == NT_X86_XSTATE) {
		struct iovec *known = data, all = { whole, sizeof whole };
		if (kernel(PTRACE_GETREGSET, pid, addr, &all) == 0 && all.iov_len > known->iov_len) {
			memcpy(whole, known->iov_base, known->iov_len);
			return kernel(request, pid, addr, &all);
		}
	}
	if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
		/* The C library's call returns the word, the kernel's stores it. */
		long word = 0, failed = kernel(request, pid, addr, &word);
		return failed < 0 ? failed : word;
	}
	return kernel(request, pid, addr, data);
}
