from .machine import Machine as Machine
from .measuring import measure as measure
from .network import Network as Network
from .predicting import predict as predict
from .prediction import Point as Point
from .prediction import Prediction as Prediction

__all__ = ["Machine", "Network", "Point", "Prediction", "measure", "predict"]
