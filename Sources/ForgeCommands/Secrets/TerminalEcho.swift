import Foundation

/// The echo of the terminal on standard input, turned off until ``restore()`` or until a signal ends the process.
struct TerminalEcho {
    private static let endingSignals = [SIGHUP, SIGINT, SIGQUIT, SIGTERM]

    /// Turns the echo off; line feeds are still shown.
    static func turnOff() throws(CommandFailure) -> TerminalEcho {
        guard tcgetattr(STDIN_FILENO, shownMode) == 0 else {
            throw CommandFailure("cannot read the mode of the terminal")
        }
        hiddenMode.pointee = shownMode.pointee
        hiddenMode.pointee.c_lflag &= ~tcflag_t(ECHO)
        hiddenMode.pointee.c_lflag |= tcflag_t(ECHONL)
        for number in endingSignals { signal(number, restoreAndEnd) }
        signal(SIGTSTP, restoreAndStop)
        let echo = TerminalEcho()
        guard tcsetattr(STDIN_FILENO, TCSAFLUSH, hiddenMode) == 0 else {
            echo.restore()
            throw CommandFailure("cannot turn off the echo of the terminal")
        }
        return echo
    }

    func restore() {
        tcsetattr(STDIN_FILENO, TCSANOW, shownMode)
        for number in Self.endingSignals + [SIGTSTP] { signal(number, SIG_DFL) }
    }
}

// Written before the signal handlers are installed, and only read afterwards. `tcsetattr`, `signal` and `raise` are
// async-signal-safe (POSIX.1, 2.4.3).
nonisolated(unsafe) private let shownMode = UnsafeMutablePointer<termios>.allocate(capacity: 1)
nonisolated(unsafe) private let hiddenMode = UnsafeMutablePointer<termios>.allocate(capacity: 1)

private let restoreAndEnd: @convention(c) (CInt) -> Void = { number in
    tcsetattr(STDIN_FILENO, TCSANOW, shownMode)
    signal(number, SIG_DFL)
    raise(number)
}

/// Stops the process with the echo on and turns it off again when the process continues.
private let restoreAndStop: @convention(c) (CInt) -> Void = { _ in
    tcsetattr(STDIN_FILENO, TCSANOW, shownMode)
    raise(SIGSTOP)
    tcsetattr(STDIN_FILENO, TCSANOW, hiddenMode)
}
