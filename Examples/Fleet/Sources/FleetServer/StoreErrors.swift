import ForgeStorage
import Hummingbird

/// Translates the errors of the stores into HTTP statuses.
struct StoreErrors<Context: RequestContext>: RouterMiddleware {
    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as any HTTPResponseError {
            throw error
        } catch let error as FileStoreError where error.code == .notFound {
            throw HTTPError(.notFound)
        } catch {
            context.logger.error("\(error)")  // The operation, the key, the endpoint and the cause; no value.
            // 503: nothing was changed, so a client may repeat the request. 504: it has to look first.
            throw HTTPError(isPerhapsDone(error) ? .gatewayTimeout : .serviceUnavailable)
        }
    }

    /// Whether a write was made, or may be.
    private func isPerhapsDone(_ error: any Error) -> Bool {
        switch error {
        case SessionStorageError.unknownOutcome: true
        case let error as KVStoreError:
            [.unknownOutcome, .notYetVisible, .durabilityUnknown].contains(error.code)
        case let error as FileStoreError: [.unknownOutcome, .durabilityUnknown].contains(error.code)
        default: false
        }
    }
}
