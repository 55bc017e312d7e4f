import ArgumentParser

/// Tools for maintainers; not a product.
@main
struct ForgeLab: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forge-lab",
        abstract: "Tools that try to break ForgeStorage.",
        subcommands: [
            DeterminismCommand.self, FuzzCommand.self, FuzzChildCommand.self, FuzzLogsCommand.self,
            FuzzLogsChildCommand.self, CrashCommand.self, ServeCommand.self, CallCommand.self, CodingCommand.self,
            HeartbeatCommand.self, WaitCostsCommand.self, LatenciesCommand.self, WakeUpsCommand.self,
            WakeUpsObserverCommand.self, StoppedVictimCommand.self, StoppedObserverCommand.self, ClosingsCommand.self,
            ClosingsProcessCommand.self,
        ] + platformCommands)

    #if os(Linux)
    /// Commands of this platform only.
    private static let platformCommands: [any ParsableCommand.Type] = [MountCommand.self, UnmountCommand.self]
    #else
    private static let platformCommands: [any ParsableCommand.Type] = []
    #endif
}
