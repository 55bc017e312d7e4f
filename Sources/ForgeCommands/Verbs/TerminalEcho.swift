import Foundation

// Memory safety: Both modes are written before the signal handlers are installed, never freed, and only read
// afterwards.

/// The echo of the terminal on standard input, turned off until ``restore()`` or until a signal ends the process.
struct TerminalEcho {
    /// The signals that end a process by default, except SIGKILL, which cannot be handled, and SIGPIPE, which this
    /// process ignores.
    private static let endingSignals: [CInt] = {
        let everywhere = [
            SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ, SIGABRT,
            SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP,
        ]
        #if os(Linux)
        return everywhere + [SIGIO, SIGPWR, SIGSTKFLT] + (__libc_current_sigrtmin()...__libc_current_sigrtmax())
        #else
        return everywhere + [SIGEMT]
        #endif
    }()

    /// The signal actions before the echo was turned off; a debugger or a crash reporter may handle some signals.
    private let earlierActions: [(number: CInt, action: sigaction)]

    /// Turns the echo off; line feeds are still shown.
    static func turnOff() throws(CommandFailure) -> TerminalEcho {
        guard unsafe tcgetattr(STDIN_FILENO, shownMode) == 0 else {
            throw CommandFailure("cannot read the mode of the terminal")
        }
        unsafe hiddenMode.pointee = shownMode.pointee
        unsafe hiddenMode.pointee.c_lflag &= ~tcflag_t(ECHO)
        unsafe hiddenMode.pointee.c_lflag |= tcflag_t(ECHONL)
        let echo = TerminalEcho(
            earlierActions: (endingSignals + [SIGTSTP]).map { number in
                var action = sigaction()
                unsafe sigaction(number, nil, &action)
                return (number, action)
            })
        for number in endingSignals { signal(number, restoreAndEnd) }
        signal(SIGTSTP, restoreAndStop)
        guard unsafe tcsetattr(STDIN_FILENO, TCSAFLUSH, hiddenMode) == 0 else {
            echo.restore()
            throw CommandFailure("cannot turn off the echo of the terminal")
        }
        return echo
    }

    func restore() {
        unsafe tcsetattr(STDIN_FILENO, TCSANOW, shownMode)
        for (number, action) in earlierActions {
            var action = action
            unsafe sigaction(number, &action, nil)
        }
    }
}

// Written before the signal handlers are installed, and only read afterwards. `tcsetattr`, `signal` and `raise` are
// async-signal-safe (POSIX.1, 2.4.3).
nonisolated(unsafe) private let shownMode = UnsafeMutablePointer<termios>.allocate(capacity: 1)
nonisolated(unsafe) private let hiddenMode = UnsafeMutablePointer<termios>.allocate(capacity: 1)

private let restoreAndEnd: @convention(c) (CInt) -> Void = { number in
    unsafe tcsetattr(STDIN_FILENO, TCSANOW, shownMode)
    signal(number, SIG_DFL)
    raise(number)
}

/// Stops the process with the echo on and turns it off again when the process continues.
private let restoreAndStop: @convention(c) (CInt) -> Void = { _ in
    unsafe tcsetattr(STDIN_FILENO, TCSANOW, shownMode)
    raise(SIGSTOP)
    unsafe tcsetattr(STDIN_FILENO, TCSANOW, hiddenMode)
}
