import Dispatch
import SystemPackage

extension InMemoryFileSystem.State {
    /// Starts a process in the root directory and returns its index in the table.
    mutating func add(_ process: InMemoryFileSystem.Process) -> Int {
        hold(Self.root)
        guard let free = processes.firstIndex(where: { !$0.isAlive }) else {
            processes.append(process)
            return processes.count - 1
        }
        processes[free] = process
        return free
    }

    /// Ends a process and frees its slot.
    mutating func remove(_ process: Int) {
        closeAll(of: process)
        watches.removeAll { $0.process == process }
        release(processes[process].workingDirectory)
        processes[process].isAlive = false
    }

    /// Ends a process and starts another one of the same user in its slot.
    mutating func restart(_ process: Int) {
        closeAll(of: process)
        watches.removeAll { $0.process == process }
        // A call of the process that waits for a lock finds its descriptor closed.
        for waiter in lockWaiters { waiter.signal() }
        lockWaiters = []
        let directory = processes[process].workingDirectory
        processes[process].workingDirectory = Self.root
        hold(Self.root)
        release(directory)
    }

    mutating func changeDirectory(_ path: POSIXPath) throws(Errno) {
        let index = try resolve(path, at: .workingDirectory, followsLinks: true)
        guard isDirectory(index) else { throw .notDirectory }
        try require(.execute, to: index)
        let old = processes[current].workingDirectory
        processes[current].workingDirectory = index
        hold(index)
        release(old)
    }

    mutating func mount(at path: POSIXPath, _ device: InMemoryFileSystem.Device) throws(Errno) {
        let index = try resolve(path, at: .workingDirectory, followsLinks: true)
        guard isDirectory(index) else { throw .notDirectory }
        guard index != Self.root, !inodes[index].isMountPoint else { throw .resourceBusy }
        guard names[index].count == 0 else { throw .directoryNotEmpty }
        devices[inodes[index].device].usedInodes -= 1
        devices.append(device)
        devices[devices.count - 1].usedInodes = 1
        inodes[index].device = devices.count - 1
        inodes[index].isMountPoint = true
    }

    /// The index of the device that contains `path`.
    mutating func device(at path: POSIXPath) throws(Errno) -> Int {
        inodes[try resolve(path, at: .workingDirectory, followsLinks: true)].device
    }
}
